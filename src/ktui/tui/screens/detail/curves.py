"""What the lanes below the replicas show: figures over time, and figures at a moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ktui.progress.timeline import Lane, Mark, Slots
from ktui.tui.draw import format as figures
from ktui.tui.screens.detail.axis import Axis

_FLAT = 0.9


class Curve(NamedTuple):
    """A figure over time: its value in each cell, and the value at full height."""

    name: str
    values: Sequence[float | None]
    top: float
    text: Callable[[float | None], str]
    now: str
    role: str = "moving"
    measured_from: int = 0  # the cell before which values are computed
    unseen: int = 0  # the first cells, of which nobody knows what was there

    @property
    def peak(self) -> float:
        return highest(self.values)

    @property
    def flat(self) -> bool:
        """Whether more rows would show nothing more."""
        return all(value is None or value >= _FLAT * self.peak for value in self.values)


def isr_role(count: int | None, least: int, wanted: int) -> str:
    """Return the role of so many replicas in sync: against min ISR, and all."""
    if count is None:
        return "dim"
    return "stalled" if count < least else "out-of-sync" if count < wanted else "in-sync"


def mark_at(history: Slots | None, at_s: float) -> int:
    """Return the mark of a moment; NOTHING outside of the slots."""
    if history is None:
        return Mark.NOTHING
    place = math.floor((at_s - history.end_s) / history.slot_s) + len(history.marks)
    return history.marks[place] if 0 <= place < len(history.marks) else Mark.NOTHING


def first_known(values: Sequence[float | None]) -> int:
    """Return the place of the first value that is known; their number without one."""
    return next((place for place, value in enumerate(values) if value is not None), len(values))


def highest(values: Sequence[float | None]) -> float:
    """Return the highest value that is known; 0 without one."""
    return max((value for value in values if value is not None), default=0.0)


def level(value: float | None, top: float, height: int) -> int:
    """Return eighths of a row above the axis; a value above zero is never drawn as zero."""
    if value is None or top <= 0.0 or value <= 0.0:
        return 0
    return max(1, round(value / top * height * 8))


def lags(points: Sequence[tuple[float, int]], axis: Axis) -> list[float | None]:
    """Return the highest value in each cell, between readings interpolated; None before and after.

    `points` are readings at monotonic seconds.
    """
    worst: dict[int, int] = {}
    first, cell_s = axis.window.first(axis.past), axis.window.cell_s
    for at_s, messages in points:
        place = math.floor(at_s / cell_s) - first
        worst[place] = max(messages, worst.get(place, 0))
    values: list[float | None] = [None] * axis.past
    for (place, value), (later, after) in pairwise(worst.items()):
        slope = (after - value) / (later - place)
        for cell in range(max(0, place), min(later, axis.past)):
            values[cell] = value + slope * (cell - place)
    last = next(reversed(worst), -1)
    if 0 <= last < axis.past:
        values[last] = worst[last]
    return values


def lag_text(messages: int | None, size: int | None) -> str:
    """Format a lag in messages and bytes, as far as known: `1.2 M msg, 3.2 GiB`."""
    known = [] if messages is None else [figures.as_messages(messages)]
    return ", ".join([*known, *([] if size is None else [figures.as_bytes(size)])])


def rate_text(lane: Lane) -> str:
    """Format how fast a replica copies; empty where unknown."""
    if lane.rate_bytes_s is not None:
        return figures.as_copying(lane.rate_bytes_s)
    return "" if lane.rate_messages_s is None else figures.as_message_rate(lane.rate_messages_s)
