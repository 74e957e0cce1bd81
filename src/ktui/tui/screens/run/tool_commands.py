"""The commands of Kafka's own tool that would do what the run does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ktui.tui.screens.copy import copy_text
from ktui.tui.widgets.bindings import give_ids


class ToolCommandsScreen(ModalScreen[None]):
    """Shows the lines of a shell, each command below its comment, and copies them.

    Args:
        lines: comments, which begin with "#", and commands.
    """

    CSS = """
    ToolCommandsScreen {
        align: center middle;
        & > VerticalScroll {
            width: 92%; max-width: 120; height: auto; max-height: 90%; padding: 1 2;
            border: round $primary; background: $surface;
            border-title-color: $foreground; border-subtitle-color: $dim;
            scrollbar-size-vertical: 1;
        }
        & .comment { color: $dim; margin-top: 1; }
        & .comment:first-of-type { margin-top: 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "copy", tooltip="Copy the commands"),
        Binding("escape,q", "close", "close", tooltip="Close the commands"),
    ]
    give_ids("commands", BINDINGS)

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = "the same by Kafka's tool"
            scroll.border_subtitle = "y copies · esc closes"
            for line in self._lines:
                is_comment = line.startswith("#")
                yield Static(Content(line), classes="comment" if is_comment else "")

    async def action_copy(self) -> None:
        await copy_text(self.app, "\n".join(self._lines))

    def action_close(self) -> None:
        self.dismiss()
