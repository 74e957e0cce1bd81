"""What the map of partitions shows: the state of each, and its place among those of its topic."""

from __future__ import annotations

import copy
import enum
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.states import STAGES, Stage, State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw.cells import STAGE_CELLS, Cell
from ktui.tui.run_view.rows import stage_of, stage_of_copy
from ktui.tui.screens.watch.row_model import differences
from ktui.tui.screens.watch.words import RowContext, never_begun


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
    ROLLING_BACK = 9
    MOVING = 10
    COPYING = 11
    READY = 12
    WAITING = 13
    QUEUED = 14
    STOPPED = 15
    ROLLED_BACK = 16
    DONE = 17
    NOT_STARTED = 18
    AT_REST = 19

    @property
    def trouble(self) -> bool:
        return self <= MapState.BEHIND

    @property
    def words(self) -> str:
        return _NAMES.get(self) or self.name.lower().replace("_", " ")


_NAMES = {
    MapState.UNHEALTHY: "out of ISR",
}
"""Words of states that other screens count by another name than the sign's."""


_OF_STAGE = {each: MapState[each.name] for each in Stage if each.name in MapState.__members__} | {
    Stage.CALLED_OFF: MapState.STOPPING,
    Stage.LEFT_OUT: MapState.FOREIGN,
}
MAP_CELLS: Final[Mapping[int, Cell]] = MappingProxyType(
    {
        **{_OF_STAGE[stage]: cell for stage, cell in STAGE_CELLS.items()},
        MapState.OFFLINE: Cell("X", "stalled"),
        MapState.UNHEALTHY: Cell("░", "out-of-sync"),
        MapState.STOPPED: Cell("×", "cancelled"),  # noqa: RUF001 - as in the timelines
        MapState.MOVING: Cell("▓", "moving"),
        MapState.ROLLED_BACK: Cell("↩", "in-sync"),
        MapState.ROLLING_BACK: Cell("«", "next-leader"),
        MapState.NOT_STARTED: Cell("○", "dim"),
        MapState.AT_REST: Cell("-", "dim"),
    }
)
BAR_ORDER: Final = tuple(
    MapState[name]
    for name in (
        "DONE", "READY", "COPYING", "MOVING", "WAITING", "QUEUED", "AT_REST", "NOT_STARTED",
        "ROLLED_BACK", "STOPPED", "STOPPING", "ROLLING_BACK", "FOREIGN", "BEHIND", "HELD_UP",
        "BLOCKED", "UNHEALTHY", "FAILED", "STALLED", "OFFLINE",
    )
)  # fmt: skip
"""The states from the left of a bar: what is done, what is under way, what is not, the trouble."""
_OF_STATE = {
    State.STOPPED: MapState.STOPPED,
    State.ROLLED_BACK: MapState.ROLLED_BACK,
    State.ROLLING_BACK: MapState.ROLLING_BACK,
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
    if never_begun(track):
        return MapState.NOT_STARTED
    return _OF_STATE.get(track.state) or _OF_STAGE[stage_of(track, timeline)]


def _moving(timeline: Timeline) -> MapState:
    if timeline.phase in _OF_PHASE:
        return _OF_PHASE[timeline.phase]
    stage = stage_of_copy(timeline)
    return MapState.MOVING if stage is Stage.COPYING else _OF_STAGE[stage]


_STATES = tuple(MapState)


_LEAST_WITH_GAP = 3


class CellSize(NamedTuple):
    """How many cells of the terminal a partition has; large ones end with a gap."""

    columns: int
    lines: int

    @property
    def drawn(self) -> CellSize:
        gaps = (self.columns >= _LEAST_WITH_GAP, self.lines >= _LEAST_WITH_GAP)
        return CellSize(self.columns - gaps[0], self.lines - gaps[1])


_SIZES = tuple(
    CellSize(*size) for size in ((14, 6), (11, 5), (9, 4), (7, 3), (5, 2), (3, 1), (2, 1), (1, 1))
)


class MapGroup(NamedTuple):
    """Topics that share a heading: one, but where not even the headings of all have a line each."""

    topics: tuple[str, ...]
    partitions: int
    folded: bool

    @property
    def name(self) -> str:
        first, *others = self.topics
        return f"{first} … {others[-1]}" if others else first


class MapLine(NamedTuple):
    """A line that the cursor goes to: the heading of a group, or some partitions of it."""

    group: int
    first: int
    last: int
    heading: bool
    y: int
    height: int


class MapModel:
    """The state of each partition, and its place; only what has changed is judged again."""

    def __init__(self) -> None:
        self._seen: Mapping[TopicPartition, Timeline] = {}
        self._codes: dict[str, bytearray] = {}
        self._places: dict[TopicPartition, tuple[str, int]] = {}
        self._topics: dict[str, list[TopicPartition]] = {}
        self.counts: Counter[MapState] = Counter()
        self.groups: list[MapGroup] = []
        self.lines: list[MapLine] = []
        self.size = _SIZES[-1]
        self.height = 0  # lines of the terminal
        self._at_y: list[int] = []
        self._headings: list[int] = []
        self._group_of: dict[str, tuple[int, int]] = {}  # the group, and how many are before
        self._room = (1, 1)
        self._chosen: dict[str, bool] = {}  # whether a group is folded, by its first topic
        self._arranged_for: dict[str, bool] = {}

    def update(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        touched: Collection[TopicPartition] = (),
    ) -> set[int] | None:
        """Take in new timelines; return the groups that changed, or None where all lines did."""
        gone, again = differences(self._seen, timelines)
        if gone or len(timelines) != len(self._seen):
            self._restart(timelines, context)
            return None
        self._seen = timelines
        changed: set[int] = set()
        for timeline in (*again, *(timelines[tp] for tp in touched if tp in timelines)):
            topic, place = self._places[timeline.tp]
            code = map_state(timeline, context)
            before = self._codes[topic][place]
            if code != before:
                self.counts[_STATES[before]] -= 1
                self.counts[code] += 1
                self._codes[topic][place] = code
                changed.add(self._group_of[topic][0])
        return changed

    def followed_by(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        touched: Collection[TopicPartition] = (),
    ) -> tuple[MapModel, set[int] | None]:
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
        if (width, height) == self._room and self._arranged_for == self._chosen:
            return False
        self._room = (max(1, width), max(1, height))
        self._arrange()
        return True

    def fold(self, number: int) -> None:
        """Fold the group of a line, or unfold it."""
        group = self.groups[self.lines[number].group]
        self._chosen[group.topics[0]] = not group.folded
        self._arrange()

    def _arrange(self) -> None:
        """Draw partitions as large as they fit; where they do not, fold what moves least.

        Topics share a heading where not even the headings fit.
        """
        self._arranged_for = dict(self._chosen)
        topics = list(self._topics)
        together = -(-len(topics) // self._room[1])
        self.groups, self._group_of = [], {}
        for number, first in enumerate(range(0, len(topics), max(1, together))):
            some = topics[first : first + together]
            counts = [len(self._topics[topic]) for topic in some]
            before = list(accumulate(counts, initial=0))
            self._group_of.update(
                (topic, (number, n)) for topic, n in zip(some, before[:-1], strict=True)
            )
            self.groups.append(MapGroup(tuple(some), before[-1], folded=False))
        if self._fits(_SIZES[-1]):
            self.size = next(size for size in _SIZES if self._fits(size))
        else:
            self.size = _SIZES[-1]
            self._fold_what_does_not_fit()
        self.groups = [
            g._replace(folded=self._chosen.get(g.topics[0], g.folded)) for g in self.groups
        ]
        self._lay_out()

    def _fits(self, size: CellSize) -> bool:
        return sum(self._height(group, size) for group in self.groups) <= self._room[1]

    def _height(self, group: MapGroup, size: CellSize) -> int:
        return 1 if group.folded else 1 + -(-group.partitions // self._per_line(size)) * size.lines

    def _per_line(self, size: CellSize) -> int:
        return max(1, self._room[0] // size.columns)

    def _fold_what_does_not_fit(self) -> None:
        """Fold all groups but the worst that fit beside the headings, and those that move."""
        left = self._room[1] - len(self.groups)
        worst = [min(self.codes(number)) for number in range(len(self.groups))]
        for number in sorted(range(len(self.groups)), key=worst.__getitem__):
            group = self.groups[number]
            lines = self._height(group, self.size) - 1
            folded = worst[number] > MapState.COPYING or lines > left
            self.groups[number] = group._replace(folded=folded)
            left -= 0 if folded else lines

    def _lay_out(self) -> None:
        span, y = self._per_line(self.size), 0
        self.lines, self._headings, self._at_y = [], [], []
        for number, group in enumerate(self.groups):
            self._headings.append(len(self.lines))
            self.lines.append(MapLine(number, 0, group.partitions, heading=True, y=y, height=1))
            y += 1
            for first in range(0, 0 if group.folded else group.partitions, span):
                last = min(group.partitions, first + span)
                self.lines.append(MapLine(number, first, last, False, y, self.size.lines))  # noqa: FBT003 - as the heading above
                y += self.size.lines
        for number, line in enumerate(self.lines):
            self._at_y += [number] * line.height
        self.height = y

    def line_at(self, y: int) -> int | None:
        return self._at_y[y] if 0 <= y < len(self._at_y) else None

    def codes(self, group: int) -> bytes:
        """Return the states of a group's partitions, in their order."""
        return b"".join(self._codes[topic] for topic in self.groups[group].topics)

    def group_counts(self, group: int) -> dict[MapState, int]:
        codes = self.codes(group)
        return {state: n for state in MapState if (n := codes.count(state))}

    def cells(self, number: int) -> bytes:
        """Return the states of the cells of a line; the heading of a group has the worst alone."""
        line = self.lines[number]
        codes = self.codes(line.group)
        return bytes((min(codes),)) if line.heading else codes[line.first : line.last]

    def partition(self, number: int, cell: int) -> TopicPartition:
        """Return the partition of a cell, or of a heading the first of those in the worst state."""
        line = self.lines[number]
        place = line.first + cell
        if line.heading:
            codes = self.codes(line.group)
            place = codes.index(min(codes))
        return self._partition(line.group, place)

    def _partition(self, group: int, place: int) -> TopicPartition:
        topic, before = next(
            (topic, before)
            for topic in reversed(self.groups[group].topics)
            if (before := self._group_of[topic][1]) <= place
        )
        return self._topics[topic][place - before]

    def place_of(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return the line and the cell of a partition; where it is folded, that of its heading."""
        if tp not in self._places:
            return None
        topic, place = self._places[tp]
        group, before = self._group_of[topic]
        if self.groups[group].folded:
            return self._headings[group], 0
        line, cell = divmod(before + place, self._per_line(self.size))
        return self._headings[group] + 1 + line, cell

    def heading_of(self, topic: str) -> tuple[int, int] | None:
        if topic not in self._group_of:
            return None
        return self._headings[self._group_of[topic][0]], 0

    def state_of(self, tp: TopicPartition) -> MapState:
        topic, place = self._places[tp]
        return _STATES[self._codes[topic][place]]

    def next_trouble(self, number: int, cell: int) -> TopicPartition | None:
        """Return the next partition in trouble after a cell, from the start again if need be."""
        if not self.lines or not any(self.counts[state] for state in _STATES if state.trouble):
            return None
        line = self.lines[number]
        at = -1 if line.heading else line.first + cell
        groups = [*range(line.group, len(self.groups)), *range(line.group + 1)]
        firsts = (at + 1, *[0] * (len(groups) - 1))
        return next(
            (tp for each in zip(groups, firsts, strict=True) for tp in self._trouble(*each)), None
        )

    def _trouble(self, group: int, first: int) -> Iterator[TopicPartition]:
        codes = self.codes(group)
        for place in range(first, len(codes)):
            if codes[place] <= MapState.BEHIND:
                yield self._partition(group, place)
