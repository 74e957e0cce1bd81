"""The cells of the map: partitions by topic, several in one cell where there are too many."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.screens.dashboard.map_state import MapState, map_state
from ktui.tui.screens.watch.row_context import RowContext
from ktui.tui.screens.watch.row_model import differences

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
