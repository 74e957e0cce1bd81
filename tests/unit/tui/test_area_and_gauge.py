"""The area of a rate over time, and the gauge of a rate against its throttle."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.tui.draw.bars import area_chart, area_heights, gauge_bar, rate_gauge
from ktui.tui.draw.cells import pieces_width

values = st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=200)
widths, heights = st.integers(1, 100), st.integers(1, 20)


@given(values, widths, heights, st.floats(0, 1e12))
def test_an_area_stays_in_its_box(
    values: list[float | None], width: int, height: int, top: float
) -> None:
    lines = area_chart(values, width, height, top)

    assert len(lines) == height
    assert {len(line) for line in lines} == {width}
    assert all(c == " " or 0x2800 < ord(c) <= 0x28FF for line in lines for c in line)


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=80), heights)
def test_more_is_never_drawn_lower(values: list[float], height: int) -> None:
    rising = sorted(values)
    drawn = area_heights(rising, len(rising), height, max(rising))

    known = [each for each in drawn if each is not None]
    assert len(known) == len(rising)
    assert all(one <= other for one, other in pairwise(known))
    assert all((each > 0) is (value > 0) for each, value in zip(known, rising, strict=True))


def test_what_is_unknown_is_blank_and_zero_is_not() -> None:
    assert area_chart([None, None, 0.0, 0.0], 2, 1, 10.0) == [" ⣀"]


@given(st.none() | st.floats(0, 1e12), st.none() | st.floats(0, 1e12), st.integers(1, 40))
def test_a_gauge_has_its_width_and_is_full_only_at_the_whole(
    value: float | None, whole: float | None, cells: int
) -> None:
    pieces = gauge_bar(value, whole, cells)

    assert pieces_width(pieces) == cells + 2
    full = "█" * cells in "".join(piece.text for piece in pieces)
    assert full is bool(value and whole and value >= whole)


@pytest.mark.parametrize(
    ("value", "throttle", "broken", "drawn"),
    [
        (680_000, 800_000, False, "▕██████▊·▏ 680/800 kB/s"),
        (868_000, 700_000, True, "▕████████▏ ! 868/700 kB/s"),
        (None, 2_000_000, False, "▕········▏ -/2.0 MB/s"),
        (5_000_000, None, False, "▕████····▏ 5.0 MB/s"),
    ],
)
def test_a_gauge_names_the_rate_and_its_throttle_in_one_unit(
    value: float | None,
    throttle: float | None,
    broken: bool,  # noqa: FBT001 - a parameter
    drawn: str,
) -> None:
    pieces = rate_gauge(value, throttle, 10_000_000, broken=broken)

    assert "".join(piece.text for piece in pieces) == drawn
