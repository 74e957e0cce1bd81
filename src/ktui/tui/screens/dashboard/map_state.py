"""The states of the map: one sign and one role each, the worst first."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, StallKind, Timeline
from ktui.tui.draw.cells import Cell
from ktui.tui.screens.watch.row_context import RowContext


class MapState(enum.IntEnum):
    """The state of a partition on the map; of several in one cell the lowest is shown."""

    OFFLINE = 0
    STALLED = 1
    UNHEALTHY = 2
    BLOCKED = 3
    BEHIND = 4
    FOREIGN = 5
    STOPPING = 6
    MOVING = 7
    QUEUED = 8
    STOPPED = 9
    ROLLED_BACK = 10
    DONE = 11
    AT_REST = 12

    @property
    def trouble(self) -> bool:
        """Whether somebody should look at the partition."""
        return self <= MapState.BEHIND

    @property
    def words(self) -> str:
        """The state in words, as the legend has it."""
        return self.name.lower().replace("_", " ")


MAP_CELLS: Final[Mapping[int, Cell]] = MappingProxyType(
    {
        MapState.OFFLINE: Cell("X", "stalled"),
        MapState.STALLED: Cell("!", "stalled"),
        MapState.UNHEALTHY: Cell("░", "out-of-sync"),
        MapState.BLOCKED: Cell("■", "falling-behind"),
        MapState.BEHIND: Cell("▽", "falling-behind"),
        MapState.FOREIGN: Cell("◇", "foreign"),
        MapState.STOPPING: Cell("<", "cancelled"),
        MapState.MOVING: Cell("▓", "moving"),
        MapState.QUEUED: Cell("·", "waiting"),
        MapState.STOPPED: Cell("×", "cancelled"),  # noqa: RUF001 - as in the timelines
        MapState.ROLLED_BACK: Cell("↩", "in-sync"),
        MapState.DONE: Cell("█", "in-sync"),
        MapState.AT_REST: Cell("-", "dim"),
    }
)
_OF_RUN = {
    State.QUEUED: MapState.QUEUED,
    State.BLOCKED: MapState.BLOCKED,
    State.FOREIGN: MapState.FOREIGN,
    State.STALLED: MapState.STALLED,
    State.STOPPING: MapState.STOPPING,
    State.ROLLING_BACK: MapState.STOPPING,
    State.REFUSED: MapState.BLOCKED,
    State.STOPPED: MapState.STOPPED,
    State.ROLLED_BACK: MapState.ROLLED_BACK,
    State.DONE: MapState.DONE,
    State.CHANGED_ELSEWHERE: MapState.FOREIGN,
    State.TOPIC_GONE: MapState.STOPPED,
    State.FAILED: MapState.STALLED,
}
_OF_PHASE = {
    Phase.SETTLED: MapState.AT_REST,
    Phase.STALLED: MapState.STALLED,
    Phase.DONE: MapState.DONE,
    Phase.CANCELLED: MapState.STOPPED,
    Phase.CHANGED_ELSEWHERE: MapState.FOREIGN,
    Phase.TOPIC_GONE: MapState.STOPPED,
}


def map_state(timeline: Timeline, context: RowContext) -> MapState:
    """Judge one partition as its row in the list does; what is worse comes first."""
    health = context.health(timeline)
    if timeline.phase is not Phase.TOPIC_GONE and health.offline:
        return MapState.OFFLINE
    track = context.track(timeline)
    state = _moving(timeline) if track is None else _in_run(track, timeline)
    if timeline.phase is Phase.STALLED:
        return MapState.STALLED
    unwell = health.severe or (state is MapState.AT_REST and health.unhealthy)
    return min(state, MapState.UNHEALTHY) if unwell else state


def _in_run(track: Track, timeline: Timeline) -> MapState:
    if track.state is State.STOPPED and not track.begun:
        return MapState.AT_REST
    return _OF_RUN.get(track.state, _moving(timeline))


def _moving(timeline: Timeline) -> MapState:
    if timeline.phase in _OF_PHASE:
        return _OF_PHASE[timeline.phase]
    stall = timeline.stall
    behind = stall is not None and stall.kind is StallKind.FALLING_BEHIND
    return MapState.BEHIND if behind else MapState.MOVING
