"""Times of which rows are read: few, and none of the needed ones is left out."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ktui.pipeline.united_times import Time, united

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
