"""The states of the map: one sign and one role each, the worst first."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ktui.execution.run.states import STAGES, Stage, State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw.cells import Cell
from ktui.tui.run_view.rows import stage_of, stage_of_copy
from ktui.tui.screens.watch.row_context import RowContext


class MapState(enum.IntEnum):
    """The state of a partition on the map; of several in one cell the lowest is shown."""

    OFFLINE = 0
    STALLED = 1
    FAILED = 2
    UNHEALTHY = 3
    BLOCKED = 4
    HELD_UP = 5
    BEHIND = 6
    FOREIGN = 7
    STOPPING = 8
    MOVING = 9
    """Not of the run."""
    COPYING = 10
    READY = 11
    WAITING = 12
    QUEUED = 13
    STOPPED = 14
    ROLLED_BACK = 15
    DONE = 16
    AT_REST = 17

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
        MapState.FAILED: Cell("F", "stalled"),
        MapState.HELD_UP: Cell("□", "falling-behind"),
        MapState.BEHIND: Cell("▽", "falling-behind"),
        MapState.FOREIGN: Cell("◇", "foreign"),
        MapState.STOPPING: Cell("<", "cancelled"),
        MapState.MOVING: Cell("▓", "moving"),
        MapState.COPYING: Cell("▒", "moving"),
        MapState.READY: Cell("▙", "in-sync"),
        MapState.WAITING: Cell(":", "waiting"),
        MapState.QUEUED: Cell("·", "waiting"),
        MapState.STOPPED: Cell("×", "cancelled"),  # noqa: RUF001 - as in the timelines
        MapState.ROLLED_BACK: Cell("↩", "in-sync"),
        MapState.DONE: Cell("█", "in-sync"),
        MapState.AT_REST: Cell("-", "dim"),
    }
)
_OF_STAGE = {
    Stage.QUEUED: MapState.QUEUED,
    Stage.WAITING: MapState.WAITING,
    Stage.BLOCKED: MapState.BLOCKED,
    Stage.FOREIGN: MapState.FOREIGN,
    Stage.STALLED: MapState.STALLED,
    Stage.HELD_UP: MapState.HELD_UP,
    Stage.BEHIND: MapState.BEHIND,
    Stage.COPYING: MapState.COPYING,
    Stage.READY: MapState.READY,
    Stage.DONE: MapState.DONE,
    Stage.CALLED_OFF: MapState.STOPPING,
    Stage.FAILED: MapState.FAILED,
    Stage.LEFT_OUT: MapState.FOREIGN,
}
_OF_STATE = {
    State.STOPPED: MapState.STOPPED,
    State.ROLLED_BACK: MapState.ROLLED_BACK,
    State.TOPIC_GONE: MapState.STOPPED,
}
"""The states that the map tells apart within a stage."""
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
    track, elsewhere = context.track(timeline), context.elsewhere(timeline)
    if track is not None:
        state = _in_run(track, timeline)
    elif elsewhere is not None and elsewhere.state is not State.ADDING:
        state = _OF_STAGE[STAGES[elsewhere.state]]
    else:
        state = _moving(timeline)
    if timeline.phase is Phase.STALLED:
        return MapState.STALLED
    unwell = health.severe or (state is MapState.AT_REST and health.unhealthy)
    return min(state, MapState.UNHEALTHY) if unwell else state


def _in_run(track: Track, timeline: Timeline) -> MapState:
    if track.state is State.STOPPED and not track.begun:
        return MapState.AT_REST
    return _OF_STATE.get(track.state) or _OF_STAGE[stage_of(track, timeline)]


def _moving(timeline: Timeline) -> MapState:
    if timeline.phase in _OF_PHASE:
        return _OF_PHASE[timeline.phase]
    stage = stage_of_copy(timeline)
    return MapState.MOVING if stage is Stage.COPYING else _OF_STAGE[stage]
