"""The prompt for the moment of a recording to go to."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from ktui.recording.replay_tape import Tape, describe_range, parse_second
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField


class MomentPrompt(Dialog[float | None]):
    """Asks for a moment; the result is its second of the tape, or None without one."""

    DEFAULT_CSS = "MomentPrompt #moment-hint { color: $dim; margin-top: 1; }"
    ENTER = "go there"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", tooltip="Go back without going anywhere"),
    ]
    give_ids("moment", BINDINGS)

    def __init__(self, tape: Tape) -> None:
        super().__init__("Go to which moment?")
        self._tape = tape

    def body(self) -> ComposeResult:
        yield TextField(placeholder=f"{self._tape.wall(self._tape.from_s).astimezone():%H:%M:%S}")
        yield Static(self._hint, id="moment-hint", markup=False)

    @property
    def _hint(self) -> str:
        goes = f"The recording goes {describe_range(self._tape)}."
        how = "Give a time of day, a date and time, or +1m30s from the beginning."
        return f"{goes} {how}"

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
        self.dismiss(None)
