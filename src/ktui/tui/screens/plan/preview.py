"""The pane that shows what a plan would do, before and after."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from ktui.planning.intents.layout import BeforeAfter
from ktui.preview.preview import PlanPreview
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import Paint
from ktui.tui.run_view.plan_request import ColouredLine, GeneratedPlan
from ktui.tui.screens.plan.preview_lines import (
    EVERYTHING,
    Line,
    PreviewSection,
    change_lines,
    preview_lines,
)

_LEAST_ROWS = 6
_SKETCH_LINES, _PREVIEW_LINES = 18, 20
"""The lines that do not show brokers: the header, fields, headings, keys; and what stands above."""


class PreviewPane(Widget):
    """Shows the sections of a preview that a step asks for.

    Only the lines on the screen are painted: a large cluster has hundreds of them.
    """

    DEFAULT_CSS = "PreviewPane { height: auto; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="plan-preview")
        self._preview: PlanPreview | None = None
        self._in_run: Sequence[ColouredLine] = ()
        self._change: BeforeAfter | None = None
        self._sketch: GeneratedPlan | None = None
        self._sections: Sequence[PreviewSection] = EVERYTHING
        self._step = ""
        self._outdated = ""
        self._lines: list[Line] = []
        self._width = 0
        self._paint: Paint | None = None

    def show(
        self,
        preview: PlanPreview | None,
        in_run: Sequence[ColouredLine] = (),
        change: BeforeAfter | None = None,
    ) -> None:
        self._preview, self._outdated = preview, ""
        self._in_run, self._change = in_run, change
        if preview is not None:
            self._sketch = None
        self._redraw()

    def show_sketch(self, sketch: GeneratedPlan | None) -> None:
        if sketch is not self._sketch:
            self._sketch = sketch
            self._redraw()

    def show_sections(self, sections: Sequence[PreviewSection], step: str) -> None:
        if (sections, step) != (self._sections, self._step):
            self._sections, self._step = sections, step
            self._redraw()

    def show_outdated(self, why: str) -> None:
        if why != self._outdated:
            self._outdated = why
            self._redraw()

    @property
    def text(self) -> str:
        return "\n".join("".join(piece.text for piece in line) for line in self._lines)

    def get_content_height(self, _container: object, _viewport: object, width: int) -> int:
        if width != self._width:
            self._width = width
            self._draw()
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._paint is None:
            self._paint = Paint(self.app.theme_variables)
        background = self._paint.background("background")
        if y >= len(self._lines):
            return Strip.blank(width, background)
        strip = Strip(self._paint.segments(_apart(self._lines[y]), "background"))
        strip = strip.extend_cell_length(width, background).crop(0, width)
        return self._with_selection(strip, y).apply_offsets(0, y)

    def _with_selection(self, strip: Strip, y: int) -> Strip:
        selection = self.text_selection
        span = None if selection is None else selection.get_span(y)
        if span is None:
            return strip
        start, end = span[0], strip.cell_length if span[1] == -1 else span[1]
        style = self.screen.get_component_rich_style("screen--selection")
        before, chosen, after = strip.divide([start, end, strip.cell_length])
        return Strip.join([before, chosen.apply_style(style), after])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract(self.text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        del selection
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._paint = None

    def _redraw(self) -> None:
        self._draw()
        self.refresh(layout=True)

    def _draw(self) -> None:
        preview, sketch = self._preview, self._sketch
        self._lines = []
        if not self._sections or not self._width:
            return
        if sketch is not None:
            self._draw_sketch(sketch)
            return
        if preview is None:
            return
        outdated = [(self._outdated, "$warning")] if self._outdated else []
        for line in (*outdated, *self._in_run):
            self._lines += _wrapped(line, self._width)
        rows = self._rows(_PREVIEW_LINES)
        self._lines += preview_lines(
            preview, self._sections, self._width, self._change, rows, self._step
        )

    def _draw_sketch(self, sketch: GeneratedPlan) -> None:
        notes = [(note, "$warning") for note in sketch.notes]
        budget = [(sketch.budget, "")] if sketch.budget else []
        for line in ((sketch.headline, "bold"), *budget, *notes):
            self._lines += _wrapped(line, self._width)
        self._lines.append([])
        rows = self._rows(_SKETCH_LINES + len(self._lines))
        self._lines += change_lines(sketch.change, self._width, rows)

    def _rows(self, other_lines: int) -> int:
        return max(_LEAST_ROWS, self.app.size.height - other_lines)


def _apart(line: Line) -> Iterator[Piece]:
    """Yield leading spaces as pieces of their own: in a picture, words keep their places."""
    for piece in line:
        words = piece.text.lstrip(" ")
        if len(words) < len(piece.text):
            yield Piece(" " * (len(piece.text) - len(words)))
        if words:
            yield piece._replace(text=words)


def _wrapped(line: ColouredLine, width: int) -> list[Line]:
    words, colour = line
    role = colour.removeprefix("$") if colour.startswith("$") else ""
    parts = textwrap.wrap(words, width) or [""]
    return [[Piece(part, role, bold=colour == "bold")] for part in parts]


def coloured(line: ColouredLine) -> Content:
    """Return a line in its colour."""
    words, colour = line
    return Content.styled(words, colour) if colour else Content(words)
