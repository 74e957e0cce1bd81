"""The prompt for a note on the run."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from ktui.cluster.text import clean
from ktui.execution.host.client import LONGEST_NOTE
from ktui.tui.screens.dialog import MOST_CELLS, Dialog
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField


class NotePrompt(Dialog[str | None]):
    """Returns the note, or None if the operator leaves without one."""

    WIDTH = MOST_CELLS
    ENTER = "write it, with your name"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without a note"),
    ]
    give_ids("note", BINDINGS)

    def __init__(self, run: str) -> None:
        super().__init__(f"note on run {clean(run)}")

    def body(self) -> ComposeResult:
        """Lay out the field for the answer."""
        yield TextField(placeholder="what the next one has to know", max_length=LONGEST_NOTE)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        self.dismiss(None)
