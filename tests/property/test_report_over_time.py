"""Whatever was recorded, the report counts each partition and each byte once."""

from __future__ import annotations

from collections import Counter as Counts
from itertools import pairwise

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.pipeline.lake.records import Interval, MoveRecord, ReportFacts, Span
from ktui.pipeline.report.data.marks import idle_spans
from ktui.pipeline.report.data.measures import bin_ms, binned
from ktui.pipeline.report.figures.figure import Counter, grid, held, outside
from ktui.pipeline.report.figures.states import ended_spans, peaks
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


@given(
    st.lists(st.tuples(st.integers(0, 47), st.integers(0, 6)), max_size=6),
    st.integers(1, 48),
)
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
