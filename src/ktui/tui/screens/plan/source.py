"""The fields that name a plan: a file's path, or what a plan that is made is to do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.registry import FIELDS, Field, WrongField
from ktui.tui.run_view.plan_request import FILE, SOURCES, PlanRequest
from ktui.tui.screens.plan.path_suggester import PathSuggester
from ktui.tui.widgets.choices import Choices, FormChoices
from ktui.tui.widgets.text_field import TextField

_LINES = [
    (label, [*fields])
    for label, fields in itertools.groupby(FIELDS.values(), lambda each: each.label)
]
"""The lines of the form, from top to bottom: the label, and the fields."""


class SourceForm(Vertical):
    """Accepts a `PlanRequest`; what is typed for another source stays.

    Args:
        request: what was typed before.
    """

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
        """What is chosen and typed."""
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
        """The selector of the first field that is to be filled; of the choice, if none is."""
        first = next((f"#plan-{name}" for name in PlanRequest(self._source).needed), "#plan-source")
        return self.empty_field or first

    def show_problem(self, problem: CannotMake | None) -> None:
        """Show why there is no such plan, below the field that it is about; None for nothing."""
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
