"""The fields that name a plan: a file's path, or what a plan that is made is to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.spread import By
from ktui.tui.run_view.plan_request import NEEDED, OPTIONAL, PlanRequest, PlanSource
from ktui.tui.run_view.typed_fields import WrongField
from ktui.tui.screens.plan.path_suggester import PathSuggester
from ktui.tui.widgets.choices import Choices, FormChoices
from ktui.tui.widgets.text_field import TextField


class _Source(NamedTuple):
    """A source of plans, as the form offers it."""

    words: str
    means: str = ""
    """What the plan does; empty for a file, which may do anything."""


_SOURCES: Mapping[PlanSource, _Source] = {
    PlanSource.FILE: _Source("a file"),
    PlanSource.DRAIN: _Source(
        "drain", "These brokers give up all their replicas. They may be down."
    ),
    PlanSource.FILL: _Source("fill", "These brokers get their share of all replicas."),
    PlanSource.SWAP: _Source("swap", "The new broker takes the place of the old one everywhere."),
    PlanSource.FACTOR: _Source(
        "replication factor", "Each partition of these topics gets so many replicas."
    ),
    PlanSource.SPREAD: _Source(
        "spread", "Brokers become even, with as few bytes copied as possible."
    ),
    PlanSource.SHED: _Source("shed", "The broker gives up just enough bytes, and no more."),
    PlanSource.LEADERS: _Source("leaders", "Each broker leads its share. Nothing is copied."),
    PlanSource.DEMOTE: _Source(
        "demote", "These brokers come last in every list. Nothing is copied."
    ),
    PlanSource.RACK_REPAIR: _Source(
        "rack repair", "Partitions get onto as many racks as they can be on."
    ),
    PlanSource.PLACEMENT: _Source(
        "placement", "Each topic follows the first rule of the file that matches it."
    ),
}
"""All sources, in the order of the choice."""


class _Field(NamedTuple):
    """A field, by its name in a `PlanRequest`."""

    name: str
    placeholder: str = ""
    before: str = ""
    """The words in front of it, where it has its line with others."""


_LINES: tuple[tuple[str, tuple[_Field, ...]], ...] = (
    ("plan's file", (_Field("path", "a path; → completes it, ↵ reads it"),)),
    ("rules file", (_Field("rules", "the path of a YAML file; → completes it"),)),
    ("brokers", (_Field("brokers", "3, or 3,7"),)),
    ("old broker", (_Field("old", "3: gives up all its replicas"),)),
    ("new broker", (_Field("new", "7: takes them over"),)),
    ("topics", (_Field("topics", "orders, or orders,pay-*: all their partitions"),)),
    ("replicas", (_Field("factor", "3: how many each partition is to have"),)),
    ("broker", (_Field("broker", "3: gives up replicas"),)),
    (
        "until",
        (_Field("until", "80%: its disks are at most that full; 200GB: so much less"),),
    ),
    ("even in", (_Field("by"),)),
    ("within", (_Field("within", "10%: how far a broker may be off its share"),)),
    ("brokers", (_Field("among", "1,2,7: only among these; empty: all that are up"),)),
    (
        "topics",
        (_Field("only", "orders-*; empty: all", "only"), _Field("exclude", "none", "not")),
    ),
    (
        "at most",
        (
            _Field("max_moves", "none", "moves"),
            _Field("max_bytes", "none", "bytes"),
            _Field("max_leader_changes", "none", "leader changes"),
        ),
    ),
    ("keep order", (_Field("keep_order"),)),
)
"""The lines of the form, from top to bottom: the label, and the fields."""
_FIELDS = tuple(field.name for _, fields in _LINES for field in fields)
_CHOSEN = ("by", "keep_order")
"""The fields that nothing is typed into."""
_SUFFIXES = {"path": (".json",), "rules": (".yaml", ".yml")}
"""The fields for a path, with the names of the files that they complete."""
_KEEPS_ORDER = ["no", "yes: a new replica takes the place of the old one"]
_BY = tuple(By)
_BY_WORDS = {By.LEADERS: "preferred leaders"}


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
        words = [source.words for source in _SOURCES.values()]
        place = list(_SOURCES).index(self._source)
        yield FormChoices("plan from", words, id="plan-source", place=place)
        yield Static(id="plan-means", classes="means", markup=False)
        yield Static(id="wrong-source", classes="wrong -away", markup=False)
        for label, fields in _LINES:
            yield self._line(label, fields)
            for field in fields:
                yield Static(id=f"wrong-{field.name}", classes="wrong -away", markup=False)

    def _line(self, label: str, fields: Sequence[_Field]) -> Widget:
        name = fields[0].name
        if name == "by":
            even = [_BY_WORDS.get(by, by.value) for by in _BY]
            place = _BY.index(self._typed_before.by)
            return Vertical(FormChoices(label, even, id="plan-by", place=place), id="line-by")
        if name == "keep_order":
            keeps = int(self._typed_before.keep_order)
            choice = FormChoices(label, _KEEPS_ORDER, id="plan-keep_order", place=keeps)
            return Vertical(choice, id="line-keep_order")
        parts: list[Widget] = [Static(label)]
        for field in fields:
            parts += self._field(field)
        return Horizontal(*parts, id=f"line-{name}", classes="line")

    def _field(self, field: _Field) -> Iterator[Widget]:
        if field.before:
            yield Static(field.before, id=f"before-{field.name}", classes="before")
        suffixes = _SUFFIXES.get(field.name)
        yield TextField(
            getattr(self._typed_before, field.name),
            id=f"plan-{field.name}",
            placeholder=field.placeholder,
            suggester=None if suffixes is None else PathSuggester(suffixes),
        )

    def on_mount(self) -> None:
        self._show_fields()

    @property
    def request(self) -> PlanRequest:
        """What is chosen and typed."""
        by = _BY[self.query_one("#plan-by", FormChoices).place]
        keeps = bool(self.query_one("#plan-keep_order", FormChoices).place)
        typed = {name: self._text(name) for name in _FIELDS if name not in _CHOSEN}
        chosen = PlanRequest(source=self._source, by=by, keep_order=keeps)
        return msgspec.structs.replace(chosen, **typed)

    def _text(self, name: str) -> str:
        return self.query_one(f"#plan-{name}", Input).value.strip()

    @property
    def empty_field(self) -> str:
        """The selector of the first empty field that is needed; empty if all are filled."""
        empty = (f"#plan-{name}" for name in NEEDED[self._source] if not self._text(name))
        return next(empty, "")

    @property
    def first_field(self) -> str:
        """The selector of the first field that is to be filled; of the choice, if none is."""
        first = next((f"#plan-{name}" for name in NEEDED[self._source]), "#plan-source")
        return self.empty_field or first

    @property
    def _shown(self) -> list[str]:
        """The fields of the source, from top to bottom."""
        names = {*NEEDED[self._source], *OPTIONAL[self._source]}
        return [name for name in _FIELDS if name in names]

    def show_problem(self, problem: CannotMake | None) -> None:
        """Show why there is no such plan, below the field that it is about; None for nothing."""
        field = problem.field if isinstance(problem, WrongField) else "source"
        for widget in self.query(".wrong").results(Static):
            here = problem is not None and widget.id == f"wrong-{field}"
            widget.update(Content(f"! {problem}" if here else ""))
            widget.set_class(not here, "-away")

    def _show_fields(self) -> None:
        shown = self._shown
        for _, fields in _LINES:
            line = self.query_one(f"#line-{fields[0].name}")
            line.display = any(field.name in shown for field in fields)
            for field in fields if len(fields) > 1 else ():
                for part in ("before", "plan"):
                    widget = self.query_one(f"#{part}-{field.name}")
                    widget.set_class(field.name not in shown, "-away")
        means = self.query_one("#plan-means", Static)
        means.update(Content(_SOURCES[self._source].means))
        means.set_class(not _SOURCES[self._source].means, "-away")

    @on(Choices.Chosen, "#plan-source")
    def _chosen(self, event: Choices.Chosen) -> None:
        self._source = list(_SOURCES)[event.place]
        self._show_fields()
        self.post_message(self.Changed())

    @on(Choices.Chosen, "#plan-by")
    @on(Choices.Chosen, "#plan-keep_order")
    @on(Input.Changed)
    def _typed(self) -> None:
        self.post_message(self.Changed())
