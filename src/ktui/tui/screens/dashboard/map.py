"""The map of partitions: a cell each, by topic; the cursor keys and the mouse walk it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.draw.bars import parts_bar
from ktui.tui.draw.cells import Piece, cut, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.dashboard.model import (
    BAR_ORDER,
    MAP_CELLS,
    MapGroup,
    MapLine,
    MapModel,
    MapState,
)
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.lines import LineView
from ktui.tui.widgets.services import OffLoop

_LABEL_SHARE, _LEAST_LABEL, _MOST_LABEL = 5, 10, 30
_BAR_SHARE, _LEAST_BAR, _MOST_BAR = 4, 8, 50
_INDENT = 4


class MapChange(NamedTuple):
    """A poll that the map is to show."""

    timelines: Mapping[TopicPartition, Timeline]
    context: RowContext
    touched: frozenset[TopicPartition]
    stale: bool

    def then(self, later: MapChange) -> MapChange:
        return later._replace(touched=self.touched | later.touched)


class PartitionMap(LineView, can_focus=True):
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
            "Open the partition under the cursor, of a topic the one in the worst state",
            key_display="↵",
        ),
        bind("space", "fold", "fold", "Fold the partitions of a topic, or show them again"),
        bind("w", "worst", "next trouble", "Go to the next partition that is in trouble"),
    ]  # fmt: skip
    give_ids("map", BINDINGS)

    @dataclass
    class Opened(Message):
        """The operator wants to see a partition's detail."""

        tp: TopicPartition

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

    def _judged(self, change: MapChange) -> tuple[MapModel, set[int] | None]:
        return self.model.followed_by(change.timelines, change.context, change.touched)

    def _show_model(self, change: MapChange, result: tuple[MapModel, set[int] | None]) -> None:
        kept = self._under_cursor
        self.model, changed = result
        resized = self._fit()
        if changed is None or resized or change.stale is not self.stale:
            self.stale = change.stale
            self._settle(kept)
        else:
            lines = self.model.lines
            self._strips = {
                y: strip
                for y, strip in self._strips.items()
                if (number := self.model.line_at(y)) is None or lines[number].group not in changed
            }
            if changed:
                self.refresh()
        self.post_message(self.Walked())

    @property
    def judging(self) -> bool:
        return self._off_loop.busy

    @property
    def partition(self) -> TopicPartition | None:
        return self.model.partition(*self.at) if self.model.lines else None

    @property
    def group(self) -> MapGroup | None:
        """The group whose heading the cursor is on, if it is on one."""
        line = self.model.lines[self.at[0]] if self.model.lines else None
        return self.model.groups[line.group] if line is not None and line.heading else None

    @property
    def _under_cursor(self) -> TopicPartition | str | None:
        return self.partition if self.group is None else self.group.topics[0]

    def on_resize(self, event: Resize) -> None:
        del event
        kept = self._under_cursor
        if self._fit():
            self._settle(kept)

    def _fit(self) -> bool:
        return self.model.fit(self.size.width - _INDENT - 1, self.size.height)

    def _settle(self, kept: TopicPartition | str | None) -> None:
        """Show another arrangement, with the cursor on the same partition or heading."""
        model = self.model
        if isinstance(kept, str):
            place = model.heading_of(kept)
        else:
            tp = kept or model.next_trouble(0, 0)
            place = None if tp is None else model.place_of(tp)
        self.fit(self.size.width, model.height)
        self._go(*(place or (1, 0)))
        self._forget()

    def _forget(self, _: Any = None) -> None:
        self._strips.clear()
        self._paint = None
        self.refresh()

    def _go(self, number: int, cell: int) -> None:
        lines = self.model.lines
        number = max(0, min(number, len(lines) - 1))
        most = len(self.model.cells(number)) - 1 if lines else 0
        before, self.at = self.at[0], (number, max(0, min(cell, most)))
        for line in (lines[each] for each in (before, number) if each < len(lines)):
            for y in range(line.y, line.y + line.height):
                self._strips.pop(y, None)
        if lines:
            line = lines[number]
            self.scroll_to_region(Region(0, line.y, 1, line.height), animate=False)
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

    def action_fold(self) -> None:
        if self.model.lines:
            group = self.model.groups[self.model.lines[self.at[0]].group]
            self.model.fold(self.at[0])
            self._settle(group.topics[0])

    def action_worst(self) -> None:
        tp = self.model.next_trouble(*self.at)
        if tp is None:
            self.notify("No partition on the map is in trouble.")
            return
        place = self.model.place_of(tp)
        if place is not None and self.model.lines[place[0]].heading:
            self.model.fold(place[0])
        self._settle(tp)

    def action_open(self) -> None:
        if self.partition is None:
            self.notify("There is no partition to open.")
        else:
            self.post_message(self.Opened(self.partition))

    def on_click(self, event: Click) -> None:
        number = self.model.line_at(event.y + round(self.scroll_y))
        if number is None:
            return
        self._go(number, (event.x - _INDENT) // self.model.size.columns)
        if event.chain > 1:
            self.action_open()
        elif self.group is not None and event.x < _INDENT:
            self.action_fold()

    def render_line(self, y: int) -> Strip:
        at = y + round(self.scroll_y)
        number = self.model.line_at(at)
        if self._paint is None:
            self._paint = Paint(self.app.theme_variables)
        if number is None:
            return Strip([]).extend_cell_length(
                self.size.width, self._paint.background("background")
            )
        strip = self._strips.get(at)
        if strip is None:
            strip = self._strips[at] = self._draw(number, at, self._paint)
        return strip

    def _draw(self, number: int, y: int, paint: Paint) -> Strip:
        line = self.model.lines[number]
        if line.heading:
            pieces = faded(self._heading(line)) if self.stale else self._heading(line)
            behind = "cursor" if number == self.at[0] else "background"
            segments = paint.segments(pieces, behind)
            return Strip(segments).extend_cell_length(self.size.width, paint.background(behind))
        cells = [
            Piece(text, MAP_CELLS[code].role, bold=MAP_CELLS[code].role == "stalled")
            for code, text in zip(self.model.cells(number), self._texts(number, y), strict=True)
        ]
        at = self.at[1] if number == self.at[0] else len(cells)
        gap = Piece(" " * (self.model.size.columns - self.model.size.drawn.columns))
        segments = paint.segments([Piece(" " * _INDENT), *self._run(cells[:at], gap)], "background")
        for piece in cells[at : at + 1]:
            style = paint.style(piece) + Style(reverse=y == line.y)  # a whole block would vanish
            segments.append(Segment(piece.text, style))
            segments.append(Segment(gap.text, paint.style(gap)))
        segments += paint.segments(self._run(cells[at + 1 :], gap), "background")
        return Strip(segments).extend_cell_length(self.size.width, paint.background("background"))

    def _texts(self, number: int, y: int) -> Iterator[str]:
        """Yield what stands in the cells of a line: signs, and numbers where there is room."""
        line, size = self.model.lines[number], self.model.size.drawn
        row = y - line.y
        for cell, code in enumerate(self.model.cells(number)):
            name = str(self.model.partition(number, cell).partition) if size.lines > 1 else ""
            glyph = MAP_CELLS[code].glyph if row < size.lines else " "
            first = f"{name} " if row == 0 and name and len(name) + 1 < size.columns else ""
            yield f"{first}{glyph * (size.columns - len(first))}"

    def _run(self, cells: Sequence[Piece], gap: Piece) -> list[Piece]:
        """Join neighbours that are alike; without colours where they are no longer current."""
        pieces = [
            first._replace(text="".join(f"{each.text}{gap.text}" for each in (first, *others)))
            for _, (first, *others) in groupby(cells, key=itemgetter(1, 2))
        ]
        return faded(pieces) if self.stale else pieces

    def _heading(self, line: MapLine) -> list[Piece]:
        """Draw a group's name, and how its partitions are: `▾ clicks  24 ▕████▒▒···▏ 16 done …`."""
        group, width = self.model.groups[line.group], self.size.width
        label = min(_MOST_LABEL, max(_LEAST_LABEL, width // _LABEL_SHARE))
        bar = min(_MOST_BAR, max(_LEAST_BAR, width // _BAR_SHARE))
        counts = self.model.group_counts(line.group)
        pieces = [
            Piece(f"  {'▸' if group.folded else '▾'} ", "header"),
            Piece(cut(group.name, "", label), "header", bold=True),
            Piece(f"{group.partitions:>7,} "),
            *state_bar(counts, bar),
            *count_pieces(counts, width - label - bar - 16),
        ]
        return cut_pieces(pieces, width - 1)


def state_bar(counts: Mapping[MapState, int], cells: int) -> list[Piece]:
    """Draw the shares of the states in their signs, what is well first; no state is left out."""
    parts = [(counts.get(state, 0), MAP_CELLS[state]) for state in BAR_ORDER]
    return [Piece("▕", "dim"), *parts_bar(parts, cells), Piece("▏", "dim")]


def count_pieces(counts: Mapping[MapState, int], width: int) -> list[Piece]:
    """Draw how many are in each state, with its sign, as far as there is room; the worst first."""
    by_words: dict[str, tuple[MapState, int]] = {}
    for state in MapState:
        if count := counts.get(state, 0):
            first, before = by_words.get(state.words, (state, 0))
            by_words[state.words] = (first, before + count)
    pieces: list[Piece] = []
    for words, (state, count) in by_words.items():
        cell = MAP_CELLS[state]
        part = [
            Piece(f"  {cell.glyph} ", cell.role, bold=True),
            Piece(f"{count:,} {words}", cell.role if state.trouble else ""),
        ]
        if pieces_width([*pieces, *part]) < width:
            pieces += part
    return pieces
