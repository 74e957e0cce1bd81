"""The fields that name a plan: a file's path, or what a generated plan is to do."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static

from ktui.tui.run_view.plan_request import PlanRequest, PlanSource
from ktui.tui.screens.plan.path_suggester import PathSuggester
from ktui.tui.widgets.choices import Choices, FormChoices
from ktui.tui.widgets.text_field import TextField

_SOURCES = (
    (PlanSource.FILE, "a file"),
    (PlanSource.DRAIN, "drain brokers"),
    (PlanSource.FACTOR, "replication factor"),
)
_FIELDS = {
    "path": (PlanSource.FILE, "plan's file", "a path; → completes it, ↵ reads it"),
    "brokers": (PlanSource.DRAIN, "brokers", "3, or 3,7: all their replicas go to others"),
    "topics": (PlanSource.FACTOR, "topics", "orders, or orders,audit: all their partitions"),
    "factor": (PlanSource.FACTOR, "replicas", "3: how many each partition is to have"),
}
"""The fields, by their names in a `PlanRequest`: with their source, label and placeholder."""


class SourceForm(Vertical):
    """Accepts a `PlanRequest`; what is typed for another source stays.

    Args:
        request: what was typed before.
    """

    DEFAULT_CSS = "SourceForm { height: auto; }"

    class Changed(Message):
        """Something else was chosen or typed."""

    def __init__(self, request: PlanRequest) -> None:
        super().__init__()
        self._typed_before = request
        self._source = request.source

    def compose(self) -> ComposeResult:
        """Lay out the choice of the source, and a line for each field."""
        sources = [source for source, _ in _SOURCES]
        words = [words for _, words in _SOURCES]
        place = sources.index(self._source)
        yield FormChoices("plan from", words, id="plan-source", place=place)
        for name, (source, label, placeholder) in _FIELDS.items():
            with Horizontal(id=f"line-{name}", classes=_classes(shown=source is self._source)):
                yield Static(label)
                yield TextField(
                    getattr(self._typed_before, name),
                    id=f"plan-{name}",
                    placeholder=placeholder,
                    suggester=PathSuggester() if name == "path" else None,
                )

    @property
    def request(self) -> PlanRequest:
        """What is chosen and typed."""
        typed = {name: self.query_one(f"#plan-{name}", Input).value.strip() for name in _FIELDS}
        return PlanRequest(source=self._source, **typed)

    @property
    def empty_field(self) -> str:
        """The selector of the first empty field of the source; empty if all are filled."""
        for name, (source, *_) in _FIELDS.items():
            if source is self._source and not self.query_one(f"#plan-{name}", Input).value.strip():
                return f"#plan-{name}"
        return ""

    @property
    def first_field(self) -> str:
        """The selector of the first field of the source."""
        return next(f"#plan-{name}" for name, (of, *_) in _FIELDS.items() if of is self._source)

    @on(Choices.Chosen, "#plan-source")
    def _chosen(self, event: Choices.Chosen) -> None:
        self._source = _SOURCES[event.place][0]
        for name, (source, *_) in _FIELDS.items():
            self.query_one(f"#line-{name}").set_classes(_classes(shown=source is self._source))
        self.post_message(self.Changed())

    @on(Input.Changed)
    def _typed(self) -> None:
        self.post_message(self.Changed())


def _classes(*, shown: bool) -> str:
    return "line" if shown else "line -away"
