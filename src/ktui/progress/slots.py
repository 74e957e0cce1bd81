"""History in time slots of one byte each: bounded memory for moves of any length."""

from __future__ import annotations

import math

import msgspec

from ktui.progress.timeline import Mark, Slots

RECENT_SLOT_S = 5.0
RECENT_SLOTS = 120
HISTORY_SLOTS = 240
HISTORY_SLOT_S = 1.0
"""The slot width with which a history starts."""

_MOMENTS = frozenset({Mark.LEADER_MOVED, Mark.CANCELLED})
_STICKY = frozenset({Mark.STALLED, *_MOMENTS})
_NOTHING = int(Mark.NOTHING)


class Grid(msgspec.Struct, frozen=True, gc=False):
    """The slot of a moment in a row of slots."""

    slot_s: float
    index: int
    """The index of the slot that holds the moment, counted from the origin."""
    end_s: float
    """The second at which that slot ends."""


def recent_grid(now_s: float) -> Grid:
    """Return the grid of `Timeline.recent`: the same for all partitions, so that rows line up."""
    index = math.floor(now_s / RECENT_SLOT_S)
    return Grid(RECENT_SLOT_S, index, (index + 1) * RECENT_SLOT_S)


def history_grid(began_s: float, now_s: float) -> Grid:
    """Return the grid of a move's histories: as fine as HISTORY_SLOTS slots allow."""
    passed_s = max(0.0, now_s - began_s)
    slot_s = HISTORY_SLOT_S
    while passed_s >= slot_s * HISTORY_SLOTS:
        slot_s *= 2.0
    index = math.floor(passed_s / slot_s)
    return Grid(slot_s, index, began_s + (index + 1) * slot_s)


def start_slots(grid: Grid, mark: int) -> Slots:
    """Start a row whose last slot is the grid's."""
    return Slots(slot_s=grid.slot_s, end_s=grid.end_s, marks=bytes((mark,)))


def extend_recent(slots: Slots, grid: Grid, mark: int, *, gap: bool) -> Slots:
    """Extend `recent` to the grid's slot; slots older than its window fall off."""
    ahead = round((grid.end_s - slots.end_s) / grid.slot_s)
    marks = _extended(slots.marks, ahead, mark, gap=gap, most=RECENT_SLOTS)
    if ahead <= 0 and marks is slots.marks:
        return slots
    end_s = grid.end_s if ahead > 0 else slots.end_s
    return Slots(slot_s=grid.slot_s, end_s=end_s, marks=marks[-RECENT_SLOTS:])


def extend_history(slots: Slots | None, grid: Grid, mark: int, *, gap: bool) -> Slots:
    """Extend a lane's history to the grid's slot, halving its resolution as often as the grid."""
    if slots is None:
        marks = bytes((_NOTHING,)) * grid.index + bytes((mark,))
        return Slots(slot_s=grid.slot_s, end_s=grid.end_s, marks=marks)
    marks = slots.marks
    width_s = slots.slot_s
    while width_s < grid.slot_s:
        marks = _halved(marks)
        width_s *= 2.0
    ahead = grid.index + 1 - len(marks)
    marks = _extended(marks, ahead, mark, gap=gap, most=HISTORY_SLOTS)
    if marks is slots.marks:
        return slots
    return Slots(slot_s=grid.slot_s, end_s=grid.end_s, marks=marks)


def _extended(marks: bytes, ahead: int, mark: int, *, gap: bool, most: int) -> bytes:
    if ahead == 1:
        return marks + bytes((mark,))
    if ahead > 1:
        between = _NOTHING if gap else _between(marks[-1], mark)
        return marks + bytes((between,)) * min(ahead - 1, most) + bytes((mark,))
    last = marks[-1]
    merged = last if last == mark else merge_marks(last, mark)
    return marks if merged == last else marks[:-1] + bytes((merged,))


def _between(last: int, mark: int) -> int:
    """Return the mark for slots that a slow poll skipped; marks of a moment are not repeated."""
    if mark not in _MOMENTS:
        return mark
    return last if last not in _MOMENTS else _NOTHING


def _halved(marks: bytes) -> bytes:
    pairs = bytes(map(merge_marks, marks[::2], marks[1::2]))
    return pairs + marks[-1:] if len(marks) % 2 else pairs


def merge_marks(earlier: int, later: int) -> int:
    """Return the one of a slot's two marks to show: trouble and moments stay, else the later."""
    if earlier in _STICKY and (later not in _STICKY or earlier > later):
        return earlier
    return earlier if later == _NOTHING else later
