"""Lines that several screens draw: pairs of words, a run beside another, an objective."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.visual import Visual
from textual.widget import Widget
from textual.widgets import Static

from ktui.columns import Column
from ktui.execution.run.events import HeldBroker, RateCause, RateHeld, RateReason
from ktui.execution.run.text import reason_text
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective import BAND
from ktui.planning.throttle_rates import Objective
from ktui.quantities import as_count, as_rate
from ktui.rehearsal.compare import RunMoment
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import BAR_CELLS, BELOW, band_cells, objective_bar
from ktui.tui.draw.cells import Cell, Piece, cut_pieces
from ktui.tui.draw.paint import RowColumn, content, table_lines


def set_text(static: Static, text: Content, *, wraps: bool = False) -> None:
    """Show a text; only another height, or a text that wraps, lays out the whole screen again."""
    before = static.content
    lines = -1
    if isinstance(before, Content):
        if before.plain == text.plain and before.spans == text.spans:
            return
        lines = before.plain.count("\n")
    static.update(text, layout=wraps or lines != text.plain.count("\n"))


class _Drawn(NamedTuple):
    """A line as it was drawn; one that is too long takes several strips."""

    line: Content
    strips: list[Strip]

    def shows(self, line: Content) -> bool:
        return self.line.plain == line.plain and self.line.spans == line.spans


@lru_cache(4_096)
def _style_at(style: VisualStyle, x: int) -> Style:
    """Style a stretch of text by its cell, too: a screenshot places each stretch exactly."""
    return style.rich_style_with_offset(x, 0)


class DrawnLines(Widget):
    """As high as its lines, of which only those that change are drawn.

    A `Static` with the same text draws all of them for each change.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "DrawnLines { height: auto; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id, classes=classes)
        self._drawn: list[_Drawn] = []
        self._strips: list[Strip] = []
        self._width = -1

    def lines(self, width: int) -> Sequence[Content]:
        raise NotImplementedError

    def redraw(self) -> None:
        before = self._strips
        self._draw(self.size.width)
        if len(before) != len(self._strips):
            self.refresh(layout=True)
            return
        for y, (was, strip) in enumerate(zip(before, self._strips, strict=True)):
            if was != strip:
                self.refresh(Region(0, y, self.size.width, 1))

    def _draw(self, width: int) -> None:
        known = self._drawn if width == self._width else []
        pairs = itertools.zip_longest(lines := self.lines(width), known[: len(lines)])
        self._drawn = [
            drawn
            if drawn is not None and drawn.shows(line)
            else _Drawn(line, self._strips_of(line, width))
            for line, drawn in pairs
        ]
        self._width = width
        self._strips = [strip for drawn in self._drawn for strip in drawn.strips]

    def _strips_of(self, line: Content, width: int) -> list[Strip]:
        """Draw a line as Textual does, but with styles that are remembered."""
        if line.cell_length > width or "\n" in line.plain or "\t" in line.plain:
            return Visual.to_strips(self, line, width, None, self.visual_style)
        base, segments, x = self.visual_style, [], 0
        for text, style in line.render(base, end="", parse_style=self._get_style):
            segments.append(Segment(text, _style_at(base + style, x)))
            x += len(text)
        return [Strip(segments, line.cell_length)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        if width != self._width:
            self._draw(width)
        return len(self._strips)

    def render_line(self, y: int) -> Strip:
        if self.size.width != self._width:
            self._draw(self.size.width)
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.visual_style.rich_style)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._width = -1


class Lines(DrawnLines):
    """Lines that were given to it."""

    _given: Sequence[Content] = ()

    def show(self, lines: Sequence[Content]) -> None:
        self._given = lines
        self.redraw()

    def lines(self, width: int) -> Sequence[Content]:
        del width
        return self._given


class LineView(ScrollView):
    """Draws its lines itself; their number changes no layout, as Textual's `virtual_size` does."""

    def fit(self, width: int, lines: int) -> None:
        self.set_reactive(Widget.virtual_size, Size(width, lines))
        self._scroll_update(self.virtual_size)


_GAP = 3
_MOST = 4  # the most columns: further apart, a value no longer seems to belong to its label


def facts(pairs: Sequence[tuple[str, Content]], width: int) -> list[Content]:
    """Lay out (label, value) pairs row by row, in as many columns as fit side by side."""
    for count in range(min(_MOST, len(pairs)), 0, -1):
        columns = [pairs[at::count] for at in range(count)]
        widths = [
            (max(cell_len(label) for label, _ in column), max(v.cell_length for _, v in column))
            for column in columns
        ]
        if count == 1 or sum(map(sum, widths)) + len(widths) * (_GAP + 2) - _GAP <= width:
            break
    return [
        Content("").join(
            _fact(label, value, *widths[column])
            for column, (label, value) in enumerate(pairs[at : at + count])
        )
        for at in range(0, len(pairs), count)
    ]


def _fact(label: str, value: Content, labels: int, values: int) -> Content:
    room = values - value.cell_length + _GAP
    return Content.assemble((f"{label:<{labels}}  ", "$dim"), value, " " * room)


_NAMES = ("as it was", "here")
_BAR = 24
_LEAST_WIDTH = 100  # a narrower line has no bar
_DONE, _LEFT = Cell("━", "moving"), Cell("─", "dim")
_NO_RUN = "no run had begun"


class BranchLines(Widget):
    """Draws two moments of one run, one below the other."""

    DEFAULT_CSS = "BranchLines { height: 2; background: $background; }"

    moments: reactive[tuple[RunMoment | None, RunMoment | None]] = reactive((None, None))

    def render(self) -> Content:
        width = self.size.width
        lines = (
            content(cut_pieces(_pieces(name, moment, width), width))
            for name, moment in zip(_NAMES, self.moments, strict=True)
        )
        return Content("\n").join(lines)


def _pieces(name: str, moment: RunMoment | None, width: int) -> list[Piece]:
    shown = Piece(f"  {name:<10}", bold=name == _NAMES[1])
    if moment is None:
        return [shown, Piece(_NO_RUN, "dim")]
    pieces = [shown]
    if width >= _LEAST_WIDTH:
        done = round(_BAR * min(1.0, moment.share))
        pieces += [Piece(_DONE.glyph * done, _DONE.role), Piece(_LEFT.glyph * (_BAR - done), "dim")]
    words = f" {moment.share:>4.0%}  {moment.done:,} of {moment.partitions:,} at target"
    return [*pieces, Piece(words), Piece(f"  {moment.state}", "dim")]


_FIGURE, _RATE = 8, 9
_MOVES = {
    RateCause.OVER: "down",
    RateCause.FAR_OVER: "down",
    RateCause.UNDER: "up",
    RateCause.IN_BAND: "stays",
}


class _Row(NamedTuple):
    name: str
    rate: int | None
    figure: float | None
    why: RateReason | None

    @property
    def aim(self) -> float:
        return 1.0 if self.why is None else self.why.aim


def objective_table(objective: Objective, held: RateHeld | None, width: int) -> list[Content]:
    """Lay out the picture in `width` cells: a sentence, a heading, and a row for each broker."""
    if held is None:
        nothing = f"{objective}: nothing was copied yet, so each broker has {as_rate(FLOOR)}."
        return [Content.styled(nothing, "$dim")]
    rows = [_of_broker(each) for each in held.brokers]
    rows = rows or [_Row("all", held.rate, held.figure, held.why)]
    lines = table_lines(_objective_columns(objective, rows), rows)
    return [_sentence(objective, held), *(content(cut_pieces(line, width)) for line in lines)]


def _objective_columns(objective: Objective, rows: Sequence[_Row]) -> Iterator[RowColumn]:
    yield Column(heading="broker", cell=lambda row: [Piece(row.name, bold=True)])
    yield Column(
        heading=_axis(objective, min(row.aim for row in rows)),
        cell=lambda row: objective_bar(row.figure, objective.below, row.aim),
    )
    yield Column(
        heading=objective.name[:_FIGURE],
        cell=lambda row: [_figure(objective, row)],
        width=_FIGURE,
        right=True,
    )
    yield Column(
        heading="rate in",
        cell=lambda row: [Piece("" if row.rate is None else as_rate(row.rate))],
        width=_RATE,
        right=True,
    )
    yield Column(heading="why", cell=lambda row: [Piece(_why(objective, row), "dim")])


def broker_objective(
    objective: Objective, held: RateHeld, broker: int
) -> list[tuple[str, Content]]:
    """Return the facts of an objective about one broker, with labels; none where it has none."""
    of = next((each for each in held.brokers if each.broker == broker), None)
    if of is None:
        return []
    row = _of_broker(of)
    figure = _figure(objective, row)
    gap = Piece(" " * max(2, 2 + _FIGURE - len(figure.text)))
    bar = content([*objective_bar(of.figure, objective.below, row.aim), gap, figure])
    if of.rate is None:
        return [(str(objective), bar)]
    why = "" if of.why is None else f"; {reason_text(of.why, of.rate, objective)}"
    return [(str(objective), bar), ("held at", Content(f"{as_rate(of.rate)}{why}"))]


def _of_broker(of: HeldBroker) -> _Row:
    sends = f"{of.broker} sends"
    return _Row(str(of.broker) if of.rate is not None else sends, of.rate, of.figure, of.why)


def _sentence(objective: Objective, held: RateHeld) -> Content:
    kept = f"{objective} held in {held.kept:,} of {as_count(held.windows, 'window')}."
    if held.figure is None:
        return Content.assemble((f"{kept} ", "$dim"), (f"No figure: {held.reason}.", "$warning"))
    return Content.styled(f"{kept} Mean in ░: the rate stays; below, it rises.", "$dim")


def _axis(objective: Objective, aim: float) -> str:
    first, _ = band_cells(aim)
    start = f"{objective.below * BAND * aim:.6g}".rjust(first)
    start = f"0{start[1:]}" if start.startswith("  ") else start  # never run together: 0147.2
    axis = start.ljust(BELOW + 1) + objective.value(objective.below)
    return axis.ljust(BAR_CELLS)[:BAR_CELLS]


def _figure(objective: Objective, row: _Row) -> Piece:
    over = row.figure is not None and row.figure > objective.below
    value = figures.UNKNOWN if row.figure is None else objective.value(row.figure)
    return Piece(value, "stalled" if over else "", bold=over)


def _why(objective: Objective, row: _Row) -> str:
    why = row.why
    if why is None:
        return ""
    whose = "" if why.of is None or row.name == str(why.of) else f"b{why.of}"
    if why.cause is RateCause.NO_FIGURE:
        return f"no figure of {whose}" if whose else "no figure"
    if why.cause is RateCause.UNUSED or why.figure is None:
        return f"stays: {figures.as_share(why.used)} used"
    least = row.rate == FLOOR and why.cause in (RateCause.OVER, RateCause.FAR_OVER)
    move = "least" if least else _MOVES[why.cause]
    return f"{move}: {whose}{' ' if whose else ''}{objective.value(why.figure)}"
