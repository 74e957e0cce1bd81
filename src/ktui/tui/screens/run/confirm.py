"""A question before something is sent: yes or no."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids


class ConfirmScreen(Dialog[bool]):
    """Returns True for y, and False if the operator leaves the screen.

    Args:
        title: the action that is about to start.
        words: what will be sent, for how many partitions, and what stays as it is.
    """

    DEFAULT_CSS = "ConfirmScreen > .dialog { border: round $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", tooltip="Do it"),
        Binding(
            "n,escape,q", "answer(False)", "no", key_display="n, esc",
            tooltip="Leave everything as it is",
        ),
    ]  # fmt: skip
    give_ids("confirm", BINDINGS)

    def __init__(self, title: str, words: str) -> None:
        super().__init__(title)
        self._words = words

    def body(self) -> ComposeResult:
        """Lay out what will be sent."""
        yield Static(Content(self._words))

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - the key's own answer
        self.dismiss(yes)
