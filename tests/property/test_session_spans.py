"""Which sessions new lines may change: those of their time, and those with events of their runs."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ktui.pipeline.ingest.normalize import SessionSpan, join_spans, touched_by, with_contemporaries

TIMES = st.integers(0, 60)
RUNS = st.lists(st.sampled_from(["drain@1", "drain@2", "grow@1"]), max_size=2, unique=True)


@st.composite
def a_span(draw: st.DrawFn) -> SessionSpan:
    first, offset = draw(TIMES), draw(TIMES)
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


SPANS = st.lists(a_span(), min_size=1, max_size=12)


def meet(one: SessionSpan, other: SessionSpan) -> bool:
    same = one.cluster_id == other.cluster_id
    return same and one.first_t <= other.last_t and other.first_t <= one.last_t


@given(SPANS)
def test_a_session_spans_all_of_its_lines_whatever_they_come_with(spans: list[SessionSpan]) -> None:
    joined = join_spans(spans)

    assert joined.keys() == {span.key for span in spans}
    for span in spans:
        of = joined[span.key]
        assert of.first_t <= span.first_t
        assert span.last_t <= of.last_t
        assert {*span.run_ids} <= {*of.run_ids}
        assert {*span.versions} <= {*of.versions}


@given(SPANS, st.randoms(use_true_random=False))
def test_sessions_of_the_same_time_are_found(spans: list[SessionSpan], dice: random.Random) -> None:
    all_spans = join_spans(spans)
    chosen = {key for key in all_spans if dice.random() < 0.3}

    found = with_contemporaries(chosen, all_spans)

    assert found == chosen | {
        key
        for key, span in all_spans.items()
        if any(meet(span, all_spans[each]) for each in chosen)
    }


@given(SPANS, st.randoms(use_true_random=False))
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
