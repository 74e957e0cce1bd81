"""The prompt for the topics to show."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from ktui.cluster.text import clean
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField


class TopicsPrompt(ModalScreen[frozenset[str] | None]):
    """Returns the topics typed, or None if the operator leaves without any."""

    CSS = """
    TopicsPrompt {
        align: center middle;
        & > Vertical {
            width: 70%; min-width: 50; max-width: 90; height: auto; padding: 1 2;
            border: round $primary; background: $surface;
        }
        & Static { color: $dim; }
        & #topics-title { color: $foreground; text-style: bold; }
        & Input { border: none; height: 1; padding: 0 1; margin: 1 0; background: $cursor; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without choosing topics"),
    ]
    give_ids("topics", BINDINGS)

    def __init__(self, chosen: Collection[str], known: Collection[str]) -> None:
        super().__init__()
        self._chosen = ", ".join(sorted(chosen))
        self._known = sorted(known)

    def compose(self) -> ComposeResult:
        """Lay out the question and the field for the answer."""
        with Vertical():
            yield Static("Which topics?", id="topics-title")
            yield TextField(
                self._chosen,
                placeholder="orders, payments",
                suggester=SuggestFromList(self._known) if self._known else None,
            )
            yield Static("Names with commas between. enter shows all their partitions, esc leaves.")

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        names = frozenset(clean(name) for part in event.value.split(",") if (name := part.strip()))
        self.dismiss(names or None)

    def action_leave(self) -> None:
        """Leave everything as it is."""
        self.dismiss(None)
