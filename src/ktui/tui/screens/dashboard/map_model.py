"""The model of the map: a cell for each partition, by broker, and how they are arranged."""

from __future__ import annotations

import copy
import enum
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.states import STAGES, Stage, State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw.cells import Cell
from ktui.tui.run_view.rows import stage_of, stage_of_copy
from ktui.tui.screens.watch.row_model import differences
from ktui.tui.screens.watch.words import RowContext


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


_BLOCKS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))
_STATES = tuple(MapState)


class MapLine(NamedTuple):
    """A line of the map: some partitions of one topic."""

    topic: str
    first: int
    """The place of its first partition among those of the topic."""
    last: int
    """The place after its last partition."""


class MapModel:
    """The state of each partition, and its place; only what has changed is judged again."""

    def __init__(self) -> None:
        self._seen: Mapping[TopicPartition, Timeline] = {}
        self._codes: dict[str, bytearray] = {}
        self._places: dict[TopicPartition, tuple[str, int]] = {}
        self._topics: dict[str, list[TopicPartition]] = {}
        self.counts: Counter[MapState] = Counter()
        """Partitions by state."""
        self.lines: list[MapLine] = []
        self.block = 1
        """The partitions of a cell."""
        self._line_of: dict[str, int] = {}
        self._size = (1, 1)

    def update(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        touched: Collection[TopicPartition] = (),
    ) -> set[str] | None:
        """Take in new timelines; return the topics that changed, or None where all lines did.

        Args:
            timelines: the partitions.
            context: what their states depend on beside.
            touched: those whose state in the run has changed.
        """
        gone, again = differences(self._seen, timelines)
        if gone or len(timelines) != len(self._seen):
            self._restart(timelines, context)
            return None
        self._seen = timelines
        changed: set[str] = set()
        for timeline in (*again, *(timelines[tp] for tp in touched if tp in timelines)):
            topic, place = self._places[timeline.tp]
            code = map_state(timeline, context)
            before = self._codes[topic][place]
            if code != before:
                self.counts[_STATES[before]] -= 1
                self.counts[code] += 1
                self._codes[topic][place] = code
                changed.add(topic)
        return changed

    def followed_by(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        touched: Collection[TopicPartition] = (),
    ) -> tuple[MapModel, set[str] | None]:
        """Return the model after `update`, and what that returns; this one stays."""
        later = copy.copy(self)
        codes = {topic: each.copy() for topic, each in self._codes.items()}
        vars(later).update(_codes=codes, counts=self.counts.copy())
        return later, later.update(timelines, context, touched)

    def _restart(self, timelines: Mapping[TopicPartition, Timeline], context: RowContext) -> None:
        self._seen = timelines
        topics: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        for tp in timelines:
            topics[tp.topic].append(tp)
        self._topics = {topic: sorted(topics[topic]) for topic in sorted(topics)}
        self._places = {
            tp: (topic, place)
            for topic, tps in self._topics.items()
            for place, tp in enumerate(tps)
        }
        self._codes = {
            topic: bytearray(map_state(timelines[tp], context) for tp in tps)
            for topic, tps in self._topics.items()
        }
        codes: Counter[int] = Counter()
        for each in self._codes.values():
            codes.update(each)
        self.counts = Counter({_STATES[code]: count for code, count in codes.items()})
        self._arrange()

    def fit(self, width: int, height: int) -> bool:
        """Arrange the cells for a room of so many; return whether that changed anything."""
        if (width, height) == self._size:
            return False
        self._size = (max(1, width), max(1, height))
        self._arrange()
        return True

    def _arrange(self) -> None:
        """Choose the smallest block with which the map fits; at least a line a topic stays."""
        width, height = self._size
        most = max(height, len(self._topics))
        sizes = [len(tps) for tps in self._topics.values()]
        fits = (b for b in _BLOCKS if sum(-(-size // (b * width)) for size in sizes) <= most)
        self.block = next(fits, _BLOCKS[-1])
        span = self.block * width
        self.lines = [
            MapLine(topic, first, min(len(tps), first + span))
            for topic, tps in self._topics.items()
            for first in range(0, len(tps), span)
        ]
        self._line_of = {}
        for number, line in enumerate(self.lines):
            self._line_of.setdefault(line.topic, number)

    def cells(self, number: int) -> list[int]:
        """Return the worst state in each cell of a line."""
        line = self.lines[number]
        codes = self._codes[line.topic]
        if self.block == 1:
            return list(codes[line.first : line.last])
        starts = range(line.first, line.last, self.block)
        return [min(codes[start : min(line.last, start + self.block)]) for start in starts]

    def partitions(self, number: int, cell: int) -> list[TopicPartition]:
        """Return the partitions of a cell, the worst first."""
        line = self.lines[number]
        start = line.first + cell * self.block
        end = min(line.last, start + self.block)
        codes = self._codes[line.topic]
        places = sorted(range(start, end), key=lambda place: (codes[place], place))
        return [self._topics[line.topic][place] for place in places]

    def place_of(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return the line and the cell of a partition; None where the map does not have it."""
        if tp not in self._places:
            return None
        topic, place = self._places[tp]
        line, offset = divmod(place, self.block * self._size[0])
        return self._line_of[topic] + line, offset // self.block

    def state_of(self, tp: TopicPartition) -> MapState:
        """Return the state of a partition."""
        topic, place = self._places[tp]
        return _STATES[self._codes[topic][place]]

    def next_trouble(self, line: int, cell: int) -> tuple[int, int] | None:
        """Return the next cell in trouble after this one, from the start again; None for none."""
        if not any(self.counts[state] for state in _STATES if state.trouble):
            return None
        order = [*range(line, len(self.lines)), *range(line + 1)]
        for turn, number in enumerate(order):
            for place, code in enumerate(self.cells(number)):
                if code <= MapState.BEHIND and (turn > 0 or place > cell):
                    return number, place
        return None
