from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.progress.timeline import Mark, Slots
from ktui.tui.screens.detail.lanes import TimeAxis


def slots(marks: bytes, slot_s: float = 1.0) -> Slots:
    return Slots(slot_s=slot_s, end_s=100.0 + slot_s * len(marks), marks=marks)


def axis_of(row: Slots, width: int) -> TimeAxis:
    axis = TimeAxis.over([row], width)
    assert axis is not None
    return axis


def test_a_short_history_has_a_cell_per_slot_and_grows_to_the_right() -> None:
    axis = axis_of(slots(bytes((1, 2, 3))), 40)
    assert (axis.cells, axis.cell_s, axis.start_s) == (3, 1.0, 100.0)
    assert axis.marks(slots(bytes((1, 2, 3)))) == bytes((1, 2, 3))


def test_a_long_history_puts_equal_numbers_of_slots_into_a_cell() -> None:
    row = slots(bytes(range(100)) * 2, slot_s=2.0)
    axis = axis_of(row, 60)
    assert (axis.cells, axis.cell_s) == (50, 8.0)
    assert axis.marks(row)[:3] == bytes((3, 7, 11))


def test_trouble_in_a_cell_is_not_hidden_by_later_slots() -> None:
    row = slots(bytes((10, Mark.STALLED, 11, 12)))
    assert axis_of(row, 2).marks(row) == bytes((Mark.STALLED, 12))


@pytest.mark.parametrize("width", [0, -3])
def test_an_axis_without_room_is_none(width: int) -> None:
    assert TimeAxis.over([slots(b"\1")], width) is None


def test_an_axis_without_a_history_is_none() -> None:
    assert TimeAxis.over([], 40) is None


@given(st.integers(1, 240), st.integers(1, 150))
def test_an_axis_fits_its_room_and_ends_with_the_last_slot(count: int, width: int) -> None:
    row = slots(bytes((7,)) * count)
    axis = axis_of(row, width)
    assert axis.cells <= width
    assert len(axis.marks(row)) == axis.cells
    assert axis.start_s + (axis.cells - 1) * axis.cell_s < row.end_s
    assert axis.start_s + axis.cells * axis.cell_s >= row.end_s
