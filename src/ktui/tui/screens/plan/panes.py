"""The panes of the screens for plans: what a plan is made from, and what it does."""

from __future__ import annotations

import asyncio
import itertools
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.selection import Selection
from textual.strip import Strip
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.planning.check.findings import Severity
from ktui.planning.intents.layout import BeforeAfter
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.registry import FIELDS, Field, WrongField
from ktui.preview.preview import PlanPreview
from ktui.tui.draw.cells import Piece, pieces_width
from ktui.tui.draw.paint import Paint, content
from ktui.tui.run_view.plan_request import FILE, SOURCES, ColouredLine, GeneratedPlan, PlanRequest
from ktui.tui.screens.plan.preview_lines import (
    EVERYTHING,
    Line,
    PreviewSection,
    change_lines,
    preview_lines,
)
from ktui.tui.widgets.fields import Choices, FormChoices, TextField

_PAUSE_S = 0.2  # seconds without a change after which typing has paused


class OnceTyped:
    """Acts once typing pauses: one act at a time, until nothing more has been typed."""

    def __init__(self, screen: Screen[Any], group: str, act: Callable[[], Awaitable[None]]) -> None:
        self._screen, self._group, self._act = screen, group, act
        self._changes = 0

    def soon(self) -> None:
        self._changes += 1
        if not self.is_busy:
            self._screen.run_worker(self._later(), group=self._group, exit_on_error=False)

    @property
    def is_busy(self) -> bool:
        return self._group in {worker.group for worker in self._screen.workers}

    async def _later(self) -> None:
        done = -1
        while done != self._changes:
            done = self._changes
            await asyncio.sleep(_PAUSE_S)
            if done == self._changes:
                await self._act()


class PathSuggester(Suggester):
    """Suggests the first folder or file, of some suffixes, whose path begins with the text."""

    def __init__(self, suffixes: tuple[str, ...]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._suffixes = suffixes

    async def get_suggestion(self, value: str) -> str | None:
        return await asyncio.to_thread(_completed, value, self._suffixes) if value else None


def _completed(value: str, suffixes: tuple[str, ...]) -> str | None:
    folder, _, start = value.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}/" if "/" in value else ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # no such folder; no such user's home
        return None
    for path in entries:
        if path.name.startswith(start) and (start or not path.name.startswith(".")):
            if path.is_dir():
                return f"{value[: len(value) - len(start)]}{path.name}/"
            if path.suffix in suffixes:
                return f"{value[: len(value) - len(start)]}{path.name}"
    return None


_LINES = [
    (label, [*fields])
    for label, fields in itertools.groupby(FIELDS.values(), lambda each: each.label)
]


class SourceForm(Vertical):
    """Accepts a `PlanRequest`; what is typed for another source stays."""

    DEFAULT_CSS = """
    SourceForm {
        height: auto;
        & .wrong { color: $error; height: auto; padding-left: 17; }
        & .line > .before { width: auto; padding: 0 1; color: $dim; }
        & #line-by, & #line-keep_order { height: auto; }
    }
    """

    class Changed(Message):
        """Something else was chosen or typed."""

    def __init__(self, request: PlanRequest) -> None:
        super().__init__()
        self._typed_before = request
        self._source = request.source

    def compose(self) -> ComposeResult:
        words = ["a file" if each == FILE else each.replace("-", " ") for each in SOURCES]
        place = SOURCES.index(self._source)
        yield FormChoices("plan from", words, id="plan-source", place=place)
        yield Static(id="plan-means", classes="means", markup=False)
        yield Static(id="wrong-source", classes="wrong -away", markup=False)
        for label, fields in _LINES:
            yield self._line(label, fields)
            for field in fields:
                yield Static(id=f"wrong-{field.name}", classes="wrong -away", markup=False)

    def _line(self, label: str, fields: Sequence[Field]) -> Widget:
        first = fields[0]
        if first.choices:
            place = [*first.choices].index(self._typed_before.text(first.name))
            words = [*first.choices.values()]
            choice = FormChoices(label, words, id=f"plan-{first.name}", place=place)
            return Vertical(choice, id=f"line-{first.name}")
        widgets: list[Widget] = [Static(label)]
        for field in fields:
            widgets += self._field(field)
        return Horizontal(*widgets, id=f"line-{first.name}", classes="line")

    def _field(self, field: Field) -> Iterator[Widget]:
        if field.before:
            yield Static(field.before, id=f"before-{field.name}", classes="before")
        yield TextField(
            self._typed_before.text(field.name),
            id=f"plan-{field.name}",
            placeholder=field.placeholder,
            suggester=PathSuggester(field.suffixes) if field.suffixes else None,
        )

    def on_mount(self) -> None:
        self._show_fields()

    @property
    def request(self) -> PlanRequest:
        return PlanRequest(self._source, {name: self._text(name) for name in FIELDS})

    def _text(self, name: str) -> str:
        if FIELDS[name].choices:
            return [*FIELDS[name].choices][self.query_one(f"#plan-{name}", FormChoices).place]
        return self.query_one(f"#plan-{name}", Input).value.strip()

    @property
    def empty_field(self) -> str:
        """The selector of the first empty field that is needed; empty if all are filled."""
        needed = PlanRequest(self._source).needed
        return next((f"#plan-{name}" for name in needed if not self._text(name)), "")

    @property
    def first_field(self) -> str:
        first = next((f"#plan-{name}" for name in PlanRequest(self._source).needed), "#plan-source")
        return self.empty_field or first

    def show_problem(self, problem: CannotMake | None) -> None:
        field = problem.field if isinstance(problem, WrongField) else "source"
        for widget in self.query(".wrong").results(Static):
            here = problem is not None and widget.id == f"wrong-{field}"
            widget.update(Content(f"! {problem}" if here else ""))
            widget.set_class(not here, "-away")

    def _show_fields(self) -> None:
        intent = PlanRequest(self._source).intent
        shown = ["path"] if intent is None else [field.name for field in intent.fields]
        for _, fields in _LINES:
            line = self.query_one(f"#line-{fields[0].name}")
            line.display = any(field.name in shown for field in fields)
            for field in fields if len(fields) > 1 else ():
                for part in ("before", "plan"):
                    widget = self.query_one(f"#{part}-{field.name}")
                    widget.set_class(field.name not in shown, "-away")
        means = self.query_one("#plan-means", Static)
        means.update(Content("" if intent is None else intent.means))
        means.set_class(intent is None, "-away")

    @on(Choices.Chosen, "#plan-source")
    def _chosen(self, event: Choices.Chosen) -> None:
        self._source = SOURCES[event.place]
        self._show_fields()
        self.post_message(self.Changed())

    @on(Choices.Chosen, "#plan-by")
    @on(Choices.Chosen, "#plan-keep_order")
    @on(Input.Changed)
    def _typed(self) -> None:
        self.post_message(self.Changed())


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


_OPEN, _DONE, _WRONG = "▸", " ✓", " !"
_GAP = Piece(" › ", "dim")  # noqa: RUF001 - the sign of a path
_ROLES = {Severity.PROBLEM: "stalled", Severity.WARNING: "falling-behind"}


class Crumbs(Widget):
    """Shows the steps side by side; a click asks for one."""

    DEFAULT_CSS = "Crumbs { height: 1; width: auto; }"

    @dataclass
    class Asked(Message):
        """A step was clicked."""

        place: int

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names
        self._open = 0
        self._wrong: Sequence[Severity | None] = [None] * len(names)

    def show(self, place: int, wrong: Sequence[Severity | None]) -> None:
        if (place, wrong) != (self._open, self._wrong):
            self._open, self._wrong = place, wrong
            self.refresh(layout=True)

    def render(self) -> Content:
        return content(part for crumb in self._crumbs() for part in crumb)

    def get_content_width(self, *_sizes: object) -> int:
        return sum(map(pieces_width, self._crumbs()))

    def _crumbs(self) -> list[list[Piece]]:
        crumbs = []
        for place, name in enumerate(self._names):
            is_open = place == self._open
            role = "" if is_open else "dim"
            sign = Piece(_OPEN if is_open else "", "moving", bold=True)
            crumb = [sign, Piece(f"{place + 1} {name}", role, bold=is_open), self._mark(place)]
            crumbs.append([_GAP, *crumb] if place else crumb)
        return crumbs

    def _mark(self, place: int) -> Piece:
        wrong = self._wrong[place]
        if wrong is not None:
            return Piece(_WRONG, _ROLES.get(wrong, ""), bold=True)
        return Piece(_DONE if place < self._open else "", "in-sync")

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        end = 0
        for place, crumb in enumerate(self._crumbs()):
            start, end = end, end + pieces_width(crumb)
            if offset is not None and start <= offset.x < end:
                self.post_message(self.Asked(place))


def coloured(line: ColouredLine) -> Content:
    """Return a line in its colour."""
    words, colour = line
    return Content.styled(words, colour) if colour else Content(words)


def show_lines(screen: Screen[Any], selector: str, lines: Sequence[ColouredLine]) -> Static:
    """Show lines in their colours; without any, the widget takes no room."""
    widget = screen.query_one(selector, Static)
    widget.update(Content("\n").join(map(coloured, lines)))
    widget.set_class(not lines, "-away")
    return widget
