"""The map of partitions: a cell each, by topic; the cursor keys and the mouse walk it."""

from __future__ import annotations

import copy
import enum
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.states import STAGES, Stage, State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw.cells import Cell, Piece, cut, faded
from ktui.tui.draw.paint import Paint
from ktui.tui.run_view.rows import stage_of, stage_of_copy
from ktui.tui.screens.watch.row_model import differences
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.services import OffLoop


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
        return self <= MapState.BEHIND

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


MAP_CELLS: Final[Mapping[int, Cell]] = MappingProxyType(
    {
        MapState[name]: Cell(sign, role)
        for role, signs in (
            ("stalled", {"OFFLINE": "X", "STALLED": "!", "FAILED": "F"}),
            ("out-of-sync", {"UNHEALTHY": "░"}),
            ("falling-behind", {"BLOCKED": "■", "HELD_UP": "□", "BEHIND": "▽"}),
            ("foreign", {"FOREIGN": "◇"}),
            ("cancelled", {"STOPPING": "<", "STOPPED": "×"}),  # noqa: RUF001 - as in the timelines
            ("moving", {"MOVING": "▓", "COPYING": "▒"}),
            ("in-sync", {"READY": "▙", "ROLLED_BACK": "↩", "DONE": "█"}),
            ("waiting", {"WAITING": ":", "QUEUED": "·"}),
            ("dim", {"AT_REST": "-"}),
        )
        for name, sign in signs.items()
    }
)
_OF_STAGE = {each: MapState[each.name] for each in Stage if each.name in MapState.__members__} | {
    Stage.CALLED_OFF: MapState.STOPPING,
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
    last: int


class MapModel:
    """The state of each partition, and its place; only what has changed is judged again."""

    def __init__(self) -> None:
        self._seen: Mapping[TopicPartition, Timeline] = {}
        self._codes: dict[str, bytearray] = {}
        self._places: dict[TopicPartition, tuple[str, int]] = {}
        self._topics: dict[str, list[TopicPartition]] = {}
        self.counts: Counter[MapState] = Counter()
        self.lines: list[MapLine] = []
        self.block = 1
        self._line_of: dict[str, int] = {}
        self._size = (1, 1)

    def update(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        touched: Collection[TopicPartition] = (),
    ) -> set[str] | None:
        """Take in new timelines; return the topics that changed, or None where all lines did."""
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
        line = self.lines[number]
        codes = self._codes[line.topic]
        if self.block == 1:
            return list(codes[line.first : line.last])
        starts = range(line.first, line.last, self.block)
        return [min(codes[start : min(line.last, start + self.block)]) for start in starts]

    def partitions(self, number: int, cell: int) -> list[TopicPartition]:
        line = self.lines[number]
        start = line.first + cell * self.block
        end = min(line.last, start + self.block)
        codes = self._codes[line.topic]
        places = sorted(range(start, end), key=lambda place: (codes[place], place))
        return [self._topics[line.topic][place] for place in places]

    def place_of(self, tp: TopicPartition) -> tuple[int, int] | None:
        if tp not in self._places:
            return None
        topic, place = self._places[tp]
        line, offset = divmod(place, self.block * self._size[0])
        return self._line_of[topic] + line, offset // self.block

    def state_of(self, tp: TopicPartition) -> MapState:
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


_LABEL_SHARE, _LEAST_LABEL, _MOST_LABEL = 5, 10, 30
_INDENT = 2


class MapChange(NamedTuple):
    """A poll that the map is to show."""

    timelines: Mapping[TopicPartition, Timeline]
    context: RowContext
    touched: frozenset[TopicPartition]
    stale: bool

    def then(self, later: MapChange) -> MapChange:
        return later._replace(touched=self.touched | later.touched)


class PartitionMap(ScrollView, can_focus=True):
    """Draws a `MapModel`; only lines that changed are drawn again."""

    DEFAULT_CSS = "PartitionMap { background: $background; scrollbar-size: 1 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("up,k", "walk(0,-1)", "up", "Go a line of the map up"),
        hidden("down,j", "walk(0,1)", "down", "Go a line of the map down"),
        hidden("left,left_square_bracket", "walk(-1,0)", "left", "Go to the cell before"),
        hidden("right,right_square_bracket", "walk(1,0)", "right", "Go to the next cell"),
        hidden("pageup", "walk(0,-10)", "page up", "Go ten lines up"),
        hidden("pagedown", "walk(0,10)", "page down", "Go ten lines down"),
        hidden("home,g", "edge(0)", "first", "Go to the first line"),
        hidden("end,G", "edge(1)", "last", "Go to the last line"),
        bind(
            "enter", "open", "detail",
            "Open the partition under the cursor, of several the one in the worst state",
            key_display="↵",
        ),
        bind("w", "worst", "next trouble", "Go to the next cell that is in trouble"),
    ]  # fmt: skip
    give_ids("map", BINDINGS)

    class Opened(Message):
        """The operator wants to see a partition's detail."""

        def __init__(self, tp: TopicPartition) -> None:
            super().__init__()
            self.tp = tp

    class Walked(Message):
        """The cursor is on another cell, or its cell has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.model = MapModel()
        self._off_loop = OffLoop(self, self._judged, self._show_model, MapChange.then)
        self.at = (0, 0)
        self.stale = False
        self._strips: dict[int, Strip] = {}
        self._paint: Paint | None = None

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._forget)

    def show(
        self,
        timelines: Mapping[TopicPartition, Timeline],
        context: RowContext,
        *,
        touched: Collection[TopicPartition] = (),
        stale: bool = False,
    ) -> None:
        change = MapChange(timelines, context, frozenset(touched), stale)
        self._off_loop.submit(change, len(timelines))

    def _judged(self, change: MapChange) -> tuple[MapModel, set[str] | None]:
        return self.model.followed_by(change.timelines, change.context, change.touched)

    def _show_model(self, change: MapChange, result: tuple[MapModel, set[str] | None]) -> None:
        kept = self.partition
        self.model, changed = result
        resized = self._fit()
        if changed is None or resized or change.stale is not self.stale:
            self.stale = change.stale
            self._settle(kept)
        else:
            for number in [n for n in self._strips if self.model.lines[n].topic in changed]:
                del self._strips[number]
            if changed:
                self.refresh()
        self.post_message(self.Walked())

    @property
    def judging(self) -> bool:
        return self._off_loop.busy

    @property
    def partitions(self) -> list[TopicPartition]:
        return self.model.partitions(*self.at) if self.model.lines else []

    @property
    def partition(self) -> TopicPartition | None:
        return next(iter(self.partitions), None)

    @property
    def _label(self) -> int:
        return min(_MOST_LABEL, max(_LEAST_LABEL, self.size.width // _LABEL_SHARE))

    @property
    def _left(self) -> int:
        return _INDENT + self._label + 1

    def on_resize(self, event: Resize) -> None:
        del event
        kept = self.partition
        if self._fit():
            self._settle(kept)

    def _fit(self) -> bool:
        return self.model.fit(self.size.width - self._left - 1, self.size.height)

    def _settle(self, kept: TopicPartition | None) -> None:
        place = None if kept is None else self.model.place_of(kept)
        self.virtual_size = Size(self.size.width, len(self.model.lines))
        self._go(*(place or (0, 0)))
        self._forget()

    def _forget(self, _: Any = None) -> None:
        self._strips.clear()
        self._paint = None
        self.refresh()

    def _go(self, line: int, cell: int) -> None:
        lines = self.model.lines
        line = max(0, min(line, len(lines) - 1))
        most = len(self.model.cells(line)) - 1 if lines else 0
        for number in (self.at[0], line):
            self._strips.pop(number, None)
        self.at = (line, max(0, min(cell, most)))
        self.scroll_to_region(Region(0, line, 1, 1), animate=False)
        self.refresh()
        self.post_message(self.Walked())

    def action_walk(self, cells: int, lines: int) -> None:
        line, cell = self.at
        if cells < 0 and cell == 0 and line > 0:
            self._go(line - 1, len(self.model.cells(line - 1)) - 1)
        elif cells > 0 and self.model.lines and cell == len(self.model.cells(line)) - 1:
            self._go(*((line + 1, 0) if line + 1 < len(self.model.lines) else self.at))
        else:
            self._go(line + lines, cell + cells)

    def action_edge(self, last: int) -> None:
        self._go(len(self.model.lines) - 1 if last else 0, self.at[1])

    def action_worst(self) -> None:
        place = self.model.next_trouble(*self.at)
        if place is None:
            self.notify("No partition on the map is in trouble.")
        else:
            self._go(*place)

    def action_open(self) -> None:
        if self.partition is None:
            self.notify("There is no partition to open.")
        else:
            self.post_message(self.Opened(self.partition))

    def on_click(self, event: Click) -> None:
        self._go(event.y + round(self.scroll_y), event.x - self._left)
        if event.chain > 1:
            self.action_open()

    def render_line(self, y: int) -> Strip:
        number = y + round(self.scroll_y)
        if self._paint is None:
            self._paint = Paint(self.app.theme_variables)
        if number >= len(self.model.lines):
            return Strip([]).extend_cell_length(
                self.size.width, self._paint.background("background")
            )
        strip = self._strips.get(number)
        if strip is None:
            strip = self._strips[number] = self._draw(number, self._paint)
        return strip

    def _draw(self, number: int, paint: Paint) -> Strip:
        line = self.model.lines[number]
        label = cut(line.topic, "", self._label) if line.first == 0 else " " * self._label
        head = [Piece(" " * _INDENT), Piece(label, "header"), Piece(" ")]
        cells = [MAP_CELLS[code] for code in self.model.cells(number)]
        at = self.at[1] if number == self.at[0] else len(cells)
        segments = paint.segments([*head, *self._run(cells[:at])], "background")
        for piece in self._run(cells[at : at + 1]):
            segments.append(Segment(piece.text, paint.style(piece) + Style(reverse=True)))
        segments += paint.segments(self._run(cells[at + 1 :]), "background")
        return Strip(segments).extend_cell_length(self.size.width, paint.background("background"))

    def _run(self, cells: Sequence[Cell]) -> list[Piece]:
        """Join neighbours that are alike; without colours where they are no longer current."""
        pieces = [
            Piece("".join(cell.glyph for cell in run), cell.role, bold=cell.role == "stalled")
            for cell, run in groupby(cells)
        ]
        return faded(pieces) if self.stale else pieces
