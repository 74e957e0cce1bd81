"""The text of a story, over the view."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ktui.tui.widgets.bindings import give_ids

_MOST_REFUSALS = 20


class StoryScreen(ModalScreen[None]):
    """Shows the story, and the parts of the plan that the cluster did not accept."""

    CSS = """
    StoryScreen {
        align: center middle;
        & > VerticalScroll {
            width: 92%; max-width: 84; height: auto; max-height: 90%; padding: 1 2;
            border: round $primary; background: $surface;
            border-title-color: $foreground; border-subtitle-color: $dim;
            scrollbar-size-vertical: 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,i", "close", "close", tooltip="Close the story"),
    ]
    give_ids("story", BINDINGS)

    def __init__(self, title: str, about: str, refused: tuple[str, ...]) -> None:
        super().__init__()
        self._title, self._about, self._refused = title, about, refused

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = Content(self._title)
            scroll.border_subtitle = "esc closes"
            yield Static(Content("\n\n".join(filter(None, (self._about, *self._not_accepted())))))

    def _not_accepted(self) -> list[str]:
        if not self._refused:
            return []
        more = len(self._refused) - _MOST_REFUSALS
        lines = [*self._refused[:_MOST_REFUSALS], *([f"and {more:,} more"] if more > 0 else ())]
        return ["\n".join(("Refused parts of the plan:", *lines))]

    def action_close(self) -> None:
        self.dismiss()
