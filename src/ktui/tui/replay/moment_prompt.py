"""The prompt for the moment of a recording to go to."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ktui.recording.replay_moment import describe_range, parse_second
from ktui.recording.replay_tape import Tape
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField


class MomentPrompt(ModalScreen[float | None]):
    """Asks for a moment; the result is its second of the tape, or None without one."""

    CSS = """
    MomentPrompt {
        align: center middle;
        & > Vertical {
            width: 70%; min-width: 50; max-width: 90; height: auto; padding: 1 2;
            border: round $primary; background: $surface;
        }
        & Static { color: $dim; }
        & #moment-title { color: $foreground; text-style: bold; }
        & Input { border: none; height: 1; padding: 0 1; margin: 1 0; background: $cursor; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without going anywhere"),
    ]
    give_ids("moment", BINDINGS)

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def compose(self) -> ComposeResult:
        """Lay out the question and its input line."""
        with Vertical():
            yield Static("Go to which moment?", id="moment-title")
            yield TextField(
                placeholder=f"{self._tape.wall(self._tape.from_s).astimezone():%H:%M:%S}"
            )
            yield Static(self._hint, id="moment-hint", markup=False)

    @property
    def _hint(self) -> str:
        goes = f"The recording goes {describe_range(self._tape)}."
        how = "Give a time of day, a date and time, or +1m30s from the beginning."
        return f"{goes} {how} enter goes there, esc leaves."

    @on(Input.Changed)
    def _typed(self) -> None:
        self.query_one("#moment-hint", Static).update(self._hint)

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        if not event.value.strip():
            self.dismiss(None)
            return
        try:
            self.dismiss(parse_second(event.value, self._tape))
        except ValueError as error:
            words = Content.styled(f"{error}.", "$error")
            self.query_one("#moment-hint", Static).update(words)

    def action_leave(self) -> None:
        """Close the prompt without going anywhere."""
        self.dismiss(None)
