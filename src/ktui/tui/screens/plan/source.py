"""The fields that name a plan: a file's path, or what a plan that is made is to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.spread import By
from ktui.tui.run_view.plan_request import NEEDED, PlanRequest, PlanSource, WrongField
from ktui.tui.screens.plan.path_suggester import PathSuggester
from ktui.tui.widgets.choices import Choices, FormChoices
from ktui.tui.widgets.text_field import TextField


class _Source(NamedTuple):
    """A source of plans, as the form offers it."""

    words: str
    means: str = ""
    """What the plan does; empty for a file, which may do anything."""
    optional: tuple[str, ...] = ()
    """The fields that it has besides those that it needs."""


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
        "spread", "Brokers become even, with as few bytes copied as possible.", ("by", "among")
    ),
    PlanSource.SHED: _Source("shed", "The broker gives up just enough bytes, and no more."),
    PlanSource.LEADERS: _Source("leaders", "Each broker leads its share. Nothing is copied."),
    PlanSource.DEMOTE: _Source(
        "demote", "These brokers come last in every list. Nothing is copied."
    ),
    PlanSource.RACK_REPAIR: _Source(
        "rack repair", "Partitions get onto as many racks as they can be on."
    ),
}
"""All sources, in the order of the choice."""
_FIELDS = {
    "path": ("plan's file", "a path; → completes it, ↵ reads it"),
    "brokers": ("brokers", "3, or 3,7"),
    "old": ("old broker", "3: gives up all its replicas"),
    "new": ("new broker", "7: takes them over"),
    "topics": ("topics", "orders, or orders,pay-*: all their partitions"),
    "factor": ("replicas", "3: how many each partition is to have"),
    "broker": ("broker", "3: gives up replicas"),
    "until": ("until", "80%: its disks are at most that full; 200GB: so much less"),
    "by": ("even in", ""),
    "within": ("within", "10%: how far a broker may be off its share"),
    "among": ("brokers", "1,2,7: only among these; empty: all that are up"),
}
"""The fields, by their names in a `PlanRequest`: with their label and placeholder."""
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
    }
    """

    class Changed(Message):
        """Something else was chosen or typed."""

    def __init__(self, request: PlanRequest) -> None:
        super().__init__()
        self._typed_before = request
        self._source = request.source

    def compose(self) -> ComposeResult:
        """Lay out the choice of the source, and a line for each field."""
        words = [source.words for source in _SOURCES.values()]
        place = list(_SOURCES).index(self._source)
        yield FormChoices("plan from", words, id="plan-source", place=place)
        yield Static(id="plan-means", classes="means", markup=False)
        yield Static(id="wrong-source", classes="wrong -away", markup=False)
        for name, (label, placeholder) in _FIELDS.items():
            if name == "by":
                even = [_BY_WORDS.get(by, by.value) for by in _BY]
                chosen = _BY.index(self._typed_before.by)
                yield Vertical(FormChoices(label, even, id="plan-by", place=chosen), id="line-by")
                continue
            with Horizontal(id=f"line-{name}", classes="line"):
                yield Static(label)
                yield TextField(
                    getattr(self._typed_before, name),
                    id=f"plan-{name}",
                    placeholder=placeholder,
                    suggester=PathSuggester() if name == "path" else None,
                )
            yield Static(id=f"wrong-{name}", classes="wrong -away", markup=False)

    def on_mount(self) -> None:
        """Show the fields of the source."""
        self._show_fields()

    @property
    def request(self) -> PlanRequest:
        """What is chosen and typed."""
        by = _BY[self.query_one("#plan-by", FormChoices).place]
        typed = {name: self._text(name) for name in _FIELDS if name != "by"}
        return msgspec.structs.replace(PlanRequest(source=self._source, by=by), **typed)

    def _text(self, name: str) -> str:
        return self.query_one(f"#plan-{name}", Input).value.strip()

    @property
    def empty_field(self) -> str:
        """The selector of the first empty field that is needed; empty if all are filled."""
        empty = (f"#plan-{name}" for name in NEEDED[self._source] if not self._text(name))
        return next(empty, "")

    @property
    def first_field(self) -> str:
        """The selector of the first field of the source; of the choice, where there is none."""
        return next((f"#plan-{name}" for name in self._shown), "#plan-source")

    @property
    def _shown(self) -> list[str]:
        """The fields of the source, from top to bottom."""
        names = {*NEEDED[self._source], *_SOURCES[self._source].optional}
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
        for name in _FIELDS:
            self.query_one(f"#line-{name}").set_class(name not in shown, "-away")
        means = self.query_one("#plan-means", Static)
        means.update(Content(_SOURCES[self._source].means))
        means.set_class(not _SOURCES[self._source].means, "-away")

    @on(Choices.Chosen, "#plan-source")
    def _chosen(self, event: Choices.Chosen) -> None:
        self._source = list(_SOURCES)[event.place]
        self._show_fields()
        self.post_message(self.Changed())

    @on(Choices.Chosen, "#plan-by")
    @on(Input.Changed)
    def _typed(self) -> None:
        self.post_message(self.Changed())
