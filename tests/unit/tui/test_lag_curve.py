from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ktui.tui.screens.detail.lanes import TimeAxis, draw, lag_curve, nice_ceiling

AXIS = TimeAxis(start_s=100.0, cell_s=10.0, cells=10, slots_per_cell=1)


def lines(points: list[tuple[float, int]], height: int = 4) -> list[str]:
    return [line.plain for line in lag_curve(points, AXIS, height)]


def test_a_falling_lag_is_a_slope_under_a_scale_with_its_unit() -> None:
    points = [(100.0 + 10 * i, 1_000 * (10 - i)) for i in range(10)]
    assert lines(points) == [
        "  10 k msg ┤█▅▂       ",
        "           │███▆▃     ",
        " 5.0 k msg ┤██████▅▂  ",
        "           │████████▆▃",
        "         0 └──────────",
    ]


def test_cells_before_the_first_reading_are_empty_and_gaps_are_interpolated() -> None:
    curve = draw([(125.0, 80), (165.0, 0)], AXIS, 2)
    assert curve.top == 80
    assert curve.levels == (0, 0, 16, 12, 8, 4, 0, 0, 0, 0)


def test_a_cell_with_many_readings_shows_the_worst() -> None:
    curve = draw([(100.0, 1), (105.0, 10), (109.0, 2), (110.0, 4)], AXIS, 1)
    assert curve.levels[:3] == (8, 3, 0)


def test_a_lag_of_one_message_is_visible_beside_a_huge_one() -> None:
    curve = draw([(101.0, 1_000_000), (111.0, 1), (121.0, 0)], AXIS, 4)
    assert curve.levels[1:3] == (1, 0)


def test_no_lag_at_all_is_a_flat_line_with_a_scale() -> None:
    assert lines([(100.0, 0), (190.0, 0)])[0] == "     2 msg ┤          "


@given(st.integers(0, 10**15))
def test_the_scale_is_a_round_number_just_above_the_lag_with_a_round_half(value: int) -> None:
    top = nice_ceiling(value)
    assert top >= value
    assert top % 2 == 0
    assert top <= max(2, 1.5 * value + 1)
    assert len(str(top).rstrip("0")) <= 2


@given(
    st.lists(st.tuples(st.floats(0, 300), st.integers(0, 10**12)), max_size=40),
    st.integers(1, 20),
)
def test_any_history_fits_the_room(points: list[tuple[float, int]], height: int) -> None:
    curve = draw(sorted(points), AXIS, height)
    assert len(curve.levels) == AXIS.cells
    assert all(0 <= level <= 8 * height for level in curve.levels)
