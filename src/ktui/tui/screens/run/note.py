"""The prompt for a note on the run."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ktui.cluster.text import clean
from ktui.execution.host.notes import LONGEST_NOTE
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField


class NotePrompt(ModalScreen[str | None]):
    """Returns the note, or None if the operator leaves without one."""

    CSS = """
    NotePrompt {
        align: center middle;
        & > Vertical {
            width: 80%; min-width: 50; max-width: 110; height: auto; padding: 1 2;
            border: round $primary; background: $surface;
        }
        & Static { color: $dim; }
        & #note-title { color: $foreground; text-style: bold; }
        & Input { border: none; height: 1; padding: 0 1; margin: 1 0; background: $cursor; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without a note"),
    ]
    give_ids("note", BINDINGS)

    def __init__(self, run: str) -> None:
        super().__init__()
        self._run = run

    def compose(self) -> ComposeResult:
        """Lay out the question and the field for the answer."""
        with Vertical():
            yield Static(f"Note on run {clean(self._run)}", id="note-title", markup=False)
            yield TextField(placeholder="what the next one has to know", max_length=LONGEST_NOTE)
            yield Static("enter writes it, with your name; esc leaves.")

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Leave without a note."""
        self.dismiss(None)
