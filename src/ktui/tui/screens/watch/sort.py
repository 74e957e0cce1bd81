"""The orders of the partition list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, StallKind, Timeline
from ktui.tui.screens.watch.columns import Column
from ktui.tui.screens.watch.row_context import RowContext

BEGAN = "began"
SORTS: tuple[str, ...] = (
    Column.STATE, Column.PARTITION, Column.LAG, Column.RATE, Column.LEFT, BEGAN,
)  # fmt: skip
_LARGEST_FIRST = frozenset(
    {str(Column.LAG), str(Column.LEFT), str(Column.TO_COPY), str(Column.BATCH), BEGAN}
)
_OFFLINE, _STALLED, _UNDER_MIN, _FALLING_BEHIND, _OUT_OF_ISR = range(5)
_TROUBLE = {
    Phase.STALLED: _STALLED,
    Phase.MOVING: 5,
    Phase.SETTLING: 6,
    Phase.CHANGED_ELSEWHERE: 7,
    Phase.CANCELLED: 8,
    Phase.TOPIC_GONE: 9,
    Phase.DONE: 10,
    Phase.SETTLED: 11,
}
_OF_RUN = {
    State.STALLED: float(_STALLED),
    State.FAILED: 1.5,
    State.BLOCKED: 2.5,
    State.REFUSED: 2.6,
    State.STOPPING: 4.5,
    State.ROLLING_BACK: 4.6,
    State.ADDING: 5.0,
    State.DROPPING: 5.1,
    State.ELECTING: 5.2,
    State.READY: 5.3,
    State.FOREIGN: 5.4,
    State.QUEUED: 5.5,
    State.CHANGED_ELSEWHERE: 7.0,
    State.STOPPED: 8.0,
    State.ROLLED_BACK: 8.5,
    State.TOPIC_GONE: 9.0,
    State.DONE: 10.0,
}
"""Ranks of the run's states among those of the phases; waiting ones follow the queue."""
_NOT_BEGUN = 5.6
_QUEUE = 1.0

_FIGURES: Mapping[str, Callable[[Timeline], float | None]] = {
    Column.LAG: attrgetter("lag_messages"),
    Column.TO_COPY: attrgetter("lag_bytes"),
    Column.RATE: attrgetter("rate_bytes_s"),
    BEGAN: attrgetter("began_s"),
}

SortKey = tuple[Any, ...]


class Ordering(msgspec.Struct, frozen=True):
    """A column to sort by, and whether in reverse of its usual direction."""

    by: str = Column.STATE
    reverse: bool = False

    @property
    def arrow(self) -> str:
        """The direction of the figures: `▲` smallest first, `▼` largest first."""
        return "▼" if self.descending else "▲"

    @property
    def descending(self) -> bool:
        """Whether the largest or latest figure comes first."""
        return (self.by in _LARGEST_FIRST) is not self.reverse

    @property
    def steady(self) -> bool:
        """Whether places change seldom, so that rows may follow the figures without jumping."""
        return self.by in (Column.STATE, Column.PARTITION, BEGAN)

    def next(self) -> Ordering:
        """Return the next order of the cycle, in its usual direction."""
        place = SORTS.index(self.by) if self.by in SORTS else -1
        return Ordering(SORTS[(place + 1) % len(SORTS)])

    def reversed(self) -> Ordering:
        """Return the same order reversed."""
        return Ordering(self.by, not self.reverse)

    def by_column(self, column: Column) -> Ordering | None:
        """Return the order for a click on a heading, or None; a second click reverses the order."""
        if column in (Column.TIMELINE, Column.REASON, Column.REPLICAS):
            return None
        return self.reversed() if column == self.by else Ordering(column)

    def key(self, timeline: Timeline, context: RowContext) -> SortKey:
        """Return the sort key of a partition, smallest first; ties are broken by name.

        Unknown figures come last, in either direction.
        """
        name = (timeline.tp.topic, timeline.tp.partition)
        if self.by == Column.PARTITION:
            return _directed_name(*name) if self.reverse else name
        value = _figure(self.by, timeline, context)
        if value is None:
            return (math.inf, *name)
        return (-value if self.descending else value, *name)


class _Backwards(str):
    """A string that sorts the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _directed_name(topic: str, partition: int) -> SortKey:
    return (_Backwards(topic), -partition)


def _figure(by: str, timeline: Timeline, context: RowContext) -> float | None:
    if by == Column.STATE:
        return _trouble(timeline, context)
    if by == Column.BATCH:
        track = None if context.run is None else context.run.track(timeline.tp)
        return None if track is None else track.batch
    if by == Column.LEFT:
        left = timeline.left_s
        return None if left is None else left.middle
    return _FIGURES[by](timeline)


def _trouble(timeline: Timeline, context: RowContext) -> float:
    """Return the rank by urgency: the lowest needs the operator first."""
    phase, stall, condition = timeline.phase, timeline.stall, context.health(timeline)
    severe = condition.severe and phase is not Phase.TOPIC_GONE
    if severe and condition.offline:
        return _OFFLINE
    track = context.track(timeline)
    if track is not None:
        return _of_run(track, timeline, context)
    if severe and phase is not Phase.STALLED:
        return _UNDER_MIN
    if phase is Phase.MOVING and stall is not None and stall.kind is StallKind.FALLING_BEHIND:
        return _FALLING_BEHIND
    if condition.unhealthy and context.shows_health(timeline, condition):
        return _OUT_OF_ISR
    return _TROUBLE[phase]


def _of_run(track: Track, timeline: Timeline, context: RowContext) -> float:
    if track.state is State.QUEUED and not track.begun and context.run is not None:
        return _NOT_BEGUN + _QUEUE * context.run.share_of_queue(track.tp)
    if track.step is not None and timeline.phase is Phase.STALLED:
        return _STALLED
    return _OF_RUN[track.state]
