"""A yes-or-no question; enter is neither."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static


class ConfirmScreen(ModalScreen[bool]):
    """Returns True for y, and False if the operator leaves the screen.

    Args:
        title: the action that is about to start.
        words: what will be sent, for how many partitions, and what stays as it is.
    """

    CSS = """
    ConfirmScreen {
        align: center middle;
        & > Vertical {
            width: 70%; min-width: 50; max-width: 90; height: auto; padding: 1 2;
            border: round $warning; background: $surface;
        }
        & #confirm-title { text-style: bold; margin-bottom: 1; }
        & #confirm-keys { color: $dim; margin-top: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", tooltip="Do it"),
        Binding("n,escape,q", "answer(False)", "no", tooltip="Leave everything as it is"),
    ]

    def __init__(self, title: str, words: str) -> None:
        super().__init__()
        self._title, self._words = title, words

    def compose(self) -> ComposeResult:
        """Lay out the question and its keys."""
        with Vertical():
            yield Static(Content(self._title), id="confirm-title")
            yield Static(Content(self._words))
            yield Static("y  yes      n, esc  no", id="confirm-keys")

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - the key's own answer
        """Return the answer."""
        self.dismiss(yes)
