"""The prompt for the topics to show."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from ktui.cluster.text import clean
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField


class TopicsPrompt(Dialog[frozenset[str] | None]):
    """Returns the topics typed, or None if the operator leaves without any."""

    DEFAULT_CSS = "TopicsPrompt .hint { color: $dim; margin-top: 1; }"
    ENTER = "show all their partitions"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without choosing topics"),
    ]
    give_ids("topics", BINDINGS)

    def __init__(self, chosen: Collection[str], known: Collection[str]) -> None:
        super().__init__("Which topics?")
        self._chosen = ", ".join(sorted(chosen))
        self._known = sorted(known)

    def body(self) -> ComposeResult:
        yield TextField(
            self._chosen,
            placeholder="orders, payments",
            suggester=SuggestFromList(self._known) if self._known else None,
        )
        yield Static("Names with commas between.", classes="hint")

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        names = frozenset(clean(name) for part in event.value.split(",") if (name := part.strip()))
        self.dismiss(names or None)

    def action_leave(self) -> None:
        self.dismiss(None)
