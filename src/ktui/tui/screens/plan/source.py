"""The step that chooses a plan: a file, or what it is made from."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.registry import FIELDS, Field, WrongField
from ktui.tui.run_view.plan_request import FILE, SOURCES, PlanRequest
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
