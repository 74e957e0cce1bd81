"""The map of partitions: a cell each, by topic; the cursor keys and the mouse walk it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.draw.cells import Cell, Piece, cut, faded
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.dashboard.map_model import MAP_CELLS, MapModel
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.off_loop import OffLoop

_LABEL_SHARE, _LEAST_LABEL, _MOST_LABEL = 5, 10, 30
_INDENT = 2


class MapChange(NamedTuple):
    """A poll that the map is to show."""

    timelines: Mapping[TopicPartition, Timeline]
    context: RowContext
    touched: frozenset[TopicPartition]
    """Partitions that changed in the run although their timelines did not."""
    stale: bool

    def then(self, later: MapChange) -> MapChange:
        """Return this poll and a later one as one."""
        return later._replace(touched=self.touched | later.touched)


class PartitionMap(ScrollView, can_focus=True):
    """Draws a `MapModel`; only lines that changed are drawn again."""

    DEFAULT_CSS = """
    PartitionMap { background: $background; scrollbar-size: 1 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "walk(0,-1)", "up", show=False, tooltip="Go a line of the map up"),
        Binding("down,j", "walk(0,1)", "down", show=False, tooltip="Go a line of the map down"),
        Binding(
            "left,left_square_bracket", "walk(-1,0)", "left", show=False,
            tooltip="Go to the cell before",
        ),
        Binding(
            "right,right_square_bracket", "walk(1,0)", "right", show=False,
            tooltip="Go to the next cell",
        ),
        Binding("pageup", "walk(0,-10)", "page up", show=False, tooltip="Go ten lines up"),
        Binding("pagedown", "walk(0,10)", "page down", show=False, tooltip="Go ten lines down"),
        Binding("home,g", "edge(0)", "first", show=False, tooltip="Go to the first line"),
        Binding("end,G", "edge(1)", "last", show=False, tooltip="Go to the last line"),
        Binding(
            "enter", "open", "detail", key_display="↵",
            tooltip="Open the partition under the cursor, of several the one in the worst state",
        ),
        Binding(
            "w", "worst", "next trouble", tooltip="Go to the next cell that is in trouble"
        ),
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
        """The line and the cell under the cursor."""
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
        """Show new timelines; the cursor stays on its partition."""
        change = MapChange(timelines, context, frozenset(touched), stale)
        self._off_loop.take(change, len(timelines))

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
        """Whether a poll is not shown yet."""
        return self._off_loop.busy

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions under the cursor, the worst first."""
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
