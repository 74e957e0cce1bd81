"""Lakes and their reports: each row counted once, few files, and only what new lines change."""

import random
from collections import Counter as Counts
from itertools import pairwise
from math import log, log2

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.pipeline.ingest.normalize import SessionSpan, join_spans, touched_by, with_contemporaries
from ktui.pipeline.lake.lake import versions_to_merge
from ktui.pipeline.lake.records import Interval, MoveRecord, ReportFacts, Span
from ktui.pipeline.lake.schema import Time, united
from ktui.pipeline.report.figures.counts import ended_spans, peaks
from ktui.pipeline.report.figures.figure import Counter, grid, held, outside
from ktui.pipeline.report.lake import idle_spans
from ktui.pipeline.report.load import bin_ms, binned
from support.pipeline.report_lake import copying, dataset_of

TIMES = st.integers(0, 200)
SPANS = st.tuples(TIMES, st.integers(1, 60)).map(lambda s: (s[0], s[0] + s[1]))


def _apart(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for began, ended in sorted(spans):
        if not found or found[-1][1] < began:
            found.append((began, ended))
    return found


APART = st.lists(SPANS, max_size=4).map(_apart)


def _move(partition: int, began: int, ended: int | None) -> MoveRecord:
    return MoveRecord(
        topic="t", partition=partition, began=began, ended=ended, outcome="done", steps=1
    )


def _waiting(partition: int, began: int, ended: int) -> Interval:
    return Interval(topic="t", partition=partition, state="queued", began=began, ended=ended)


@given(
    st.lists(st.tuples(st.integers(0, 2), SPANS, st.booleans()), max_size=8),
    st.lists(st.tuples(st.integers(0, 2), SPANS), max_size=8),
)
def test_a_partition_has_ended_at_most_once_and_never_while_it_moves_or_waits(
    moves: list[tuple[int, Span, bool]], waits: list[tuple[int, Span]]
) -> None:
    facts = ReportFacts(
        cluster_id="one",
        runs=(),
        of_run=False,
        moves=tuple(_move(n, a, None if open_ else b) for n, (a, b), open_ in moves),
        intervals=tuple(_waiting(n, *span) for n, span in waits),
    )
    ended = Counter(ended_spans(facts))

    for t in range(0, 270, 7):
        begun = {n for n, (a, _), _ in moves if a <= t} | {n for n, (a, _) in waits if a <= t}
        busy = {n for n, (a, b), open_ in moves if a <= t and (open_ or t < b)}
        busy |= {n for n, (a, b) in waits if a <= t < b}
        assert ended.at(t) == len(begun - busy)


@given(st.lists(st.tuples(TIMES, st.integers(0, 9)), max_size=40), APART)
def test_what_was_under_way_is_what_polls_saw_and_nothing_within_a_gap(
    seen: list[tuple[int, int]], gaps: list[Span]
) -> None:
    polls = [(t, n) for t, n in sorted(seen) if not any(a < t < b for a, b in gaps)]
    moments = sorted({*range(0, 301, 10), *(t for gap in gaps for t in gap)})

    found = peaks([t for t, _ in polls], [n for _, n in polls], moments, gaps)

    for moment, count in zip(moments, found, strict=True):
        if any(began <= moment < ended for began, ended in gaps):
            assert count is None
        elif count is not None:
            assert count in {n for _, n in polls}
    known = [count for count in found if count is not None]
    outside = [n for t, n in polls if not any(a <= t < b for a, b in gaps)]
    assert max(outside, default=0) <= max(known, default=0)


@given(APART, APART)
def test_the_visible_parts_of_gaps_are_all_that_is_not_left_out(
    gaps: list[Span], idle: list[Span]
) -> None:
    shown = Counts(t for began, ended in outside(gaps, idle) for t in range(began, ended))

    within = {t for began, ended in gaps for t in range(began, ended)}
    cut = {t for began, ended in idle for t in range(began, ended)}
    assert shown == Counts(within - cut)


@given(st.lists(st.tuples(SPANS, st.integers(0, 9)), max_size=4), APART)
def test_a_line_of_values_has_each_while_it_holds_and_nothing_within_a_gap(
    values: list[tuple[Span, int]], gaps: list[Span]
) -> None:
    apart = _apart([span for span, _ in values])
    known = [(span, n) for span, (_, n) in zip(apart, values, strict=False)]

    points = held(known, gaps)

    drawn = {
        t: value
        for (began, value), (ended, also) in pairwise(points)
        if value is not None and also is not None
        for t in range(began, ended)
    }
    assert drawn == {
        t: value
        for (began, ended), value in known
        for t in range(began, ended)
        if not any(a <= t < b for a, b in gaps)
    }


HOUR = 3_600_000


@given(st.lists(st.tuples(st.integers(0, 47), st.integers(0, 6)), max_size=6), st.integers(1, 48))
def test_nothing_that_moved_is_ever_left_out(parts: list[tuple[int, int]], hours: int) -> None:
    span = (0, hours * HOUR)
    active = [(a * HOUR, (a + b) * HOUR) for a, b in parts]

    idle = idle_spans(active, span)

    assert idle == sorted(idle)
    for since, to in idle:
        assert 0 <= since < to <= span[1]
        assert not any(began < to and since < ended for began, ended in active)
    moments = grid(span, idle)
    assert (moments[0], moments[-1]) == span
    assert not any(since < t < to for t in moments for since, to in idle)
    assert len(moments) <= 402 + 2 * len(idle)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 9_000), st.integers(0, 5_000)), min_size=1, max_size=20),
    st.sampled_from((5_000, 10_000, 60_000)),
)
def test_every_byte_that_a_replica_grew_is_in_the_bins_once(
    steps: list[tuple[int, int]], bins: int
) -> None:
    samples, t, end = [], 1_000_000, 100
    for ms, grew in steps:
        t, end = t + ms, end + grew
        samples.append(copying(t, end))

    found = binned(dataset_of("samples", reversed(samples)), pc.scalar(value=True), (), bins)

    assert {one.broker for one in found} <= {4}
    assert all(one.began % bins == 0 for one in found)
    copied = sum(one.bytes_in or 0 for one in found)
    assert copied == pytest.approx(3 * (end - 100 - steps[0][1]))


@given(st.integers(0, 10**10))
def test_bins_are_few_and_as_short_as_that_allows(length_ms: int) -> None:
    assert length_ms / bin_ms(length_ms) <= 90 or bin_ms(length_ms) == 24 * HOUR
    assert bin_ms(length_ms) == 5_000 or length_ms / bin_ms(length_ms) > 20


SPAN_TIMES = st.integers(0, 60)
RUNS = st.lists(st.sampled_from(["drain@1", "drain@2", "grow@1"]), max_size=2, unique=True)


@st.composite
def a_span(draw: st.DrawFn) -> SessionSpan:
    first, offset = draw(SPAN_TIMES), draw(SPAN_TIMES)
    return SessionSpan(
        draw(st.sampled_from(["prod", "test"])),
        draw(st.sampled_from("abcdefgh")),
        first,
        first + draw(st.integers(0, 8)),
        offset,
        offset + draw(st.integers(0, 2)),
        tuple(sorted(draw(RUNS))),
        tuple(sorted(draw(st.lists(st.sampled_from(["1", "2"]), max_size=2, unique=True)))),
    )


SESSION_SPANS = st.lists(a_span(), min_size=1, max_size=12)


def meet(one: SessionSpan, other: SessionSpan) -> bool:
    same = one.cluster_id == other.cluster_id
    return same and one.first_t <= other.last_t and other.first_t <= one.last_t


@given(SESSION_SPANS)
def test_a_session_spans_all_of_its_lines_whatever_they_come_with(spans: list[SessionSpan]) -> None:
    joined = join_spans(spans)

    assert joined.keys() == {span.key for span in spans}
    for span in spans:
        of = joined[span.key]
        assert of.first_t <= span.first_t
        assert span.last_t <= of.last_t
        assert {*span.run_ids} <= {*of.run_ids}
        assert {*span.versions} <= {*of.versions}


@given(SESSION_SPANS, st.randoms(use_true_random=False))
def test_sessions_of_the_same_time_are_found(spans: list[SessionSpan], dice: random.Random) -> None:
    all_spans = join_spans(spans)
    chosen = {key for key in all_spans if dice.random() < 0.3}

    found = with_contemporaries(chosen, all_spans)

    assert found == chosen | {
        key
        for key, span in all_spans.items()
        if any(meet(span, all_spans[each]) for each in chosen)
    }


@given(SESSION_SPANS, st.randoms(use_true_random=False))
def test_new_lines_touch_what_they_shadow_and_what_shadows_that_and_the_same_runs(
    spans: list[SessionSpan], dice: random.Random
) -> None:
    all_spans = join_spans(spans)
    new = {key for key in all_spans if dice.random() < 0.3}

    touched = touched_by(new, all_spans)

    around = with_contemporaries(with_contemporaries(new, all_spans), all_spans)
    sharing = {
        key
        for key, span in all_spans.items()
        for each in new
        if each[0] == key[0] and {*all_spans[each].run_ids} & {*span.run_ids}
    }
    assert touched == around | sharing


MOMENTS = st.integers(0, 200)


@st.composite
def a_time(draw: st.DrawFn) -> Time:
    first = draw(MOMENTS)
    return first, draw(st.none() | st.integers(first, first + 20))


def covers(times: list[Time], t: int) -> bool:
    return any(first <= t and (last is None or t <= last) for first, last in times)


@given(st.lists(a_time(), max_size=30), st.integers(1, 5))
def test_few_times_cover_many(times: list[Time], most: int) -> None:
    found = united(times, most)

    assert len(found) <= most
    assert all(covers(found, t) for t in range(230) if covers(times, t))


@given(st.lists(a_time(), max_size=30))
def test_nothing_else_is_covered_where_times_are_few(times: list[Time]) -> None:
    found = united(times, 30)

    assert all(covers(times, t) for t in range(230) if covers(found, t))
    assert all(last is not None and last < first for (_, last), (first, _) in pairwise(found))


ROWS = st.lists(st.integers(1, 10_000), min_size=1, max_size=60)


class GrowingLake:
    """The versions of a lake to which rows are added, and how often each row was written again."""

    def __init__(self) -> None:
        self.versions: list[tuple[str, list[int]]] = []
        """The name of each, and the additions whose rows it has."""
        self.written_again: list[int] = []
        self._rows: list[int] = []

    def add(self, rows: int) -> None:
        """Add rows, with nothing that has to be merged."""
        sizes = [(name, sum(self._rows[n] for n in of)) for name, of in self.versions]
        merged = versions_to_merge(sizes, (), rows)
        held = [n for name, of in self.versions if name in merged for n in of]
        self.versions = [each for each in self.versions if each[0] not in merged]
        for n in held:
            self.written_again[n] += 1
        self._rows.append(rows)
        self.written_again.append(0)
        self.versions.append((f"{len(self._rows):06}", [*held, len(self._rows) - 1]))

    @property
    def total(self) -> int:
        return sum(self._rows)


def grown(additions: list[int]) -> GrowingLake:
    lake = GrowingLake()
    for rows in additions:
        lake.add(rows)
    return lake


def test_after_fifty_equal_additions_there_are_at_most_eight_folders() -> None:
    assert len(grown([1_000] * 50).versions) <= 8


@given(ROWS)
def test_folders_and_rewrites_grow_with_the_logarithm_of_the_rows(additions: list[int]) -> None:
    lake = grown(additions)

    assert len(lake.versions) <= log2(lake.total) + 1
    assert max(lake.written_again) <= log(lake.total, 1.5) + 1


@given(ROWS, st.data())
def test_versions_with_changed_rows_are_always_merged(
    sizes: list[int], data: st.DataObject
) -> None:
    versions = [(f"{n:06}", rows) for n, rows in enumerate(sizes)]
    needed = data.draw(st.sets(st.sampled_from([name for name, _ in versions])))

    assert needed <= versions_to_merge(versions, needed, 0) <= {name for name, _ in versions}
