"""Questions before something is sent: yes or no, and one that wants a name typed."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.text_field import TextField


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
    give_ids("confirm", BINDINGS)

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


class TypeNameScreen(ModalScreen[bool]):
    """Returns True once a name was typed, and False if the operator leaves the screen.

    Args:
        title: the action that is about to start.
        words: what it does.
        name: the name to type.
    """

    CSS = """
    TypeNameScreen {
        align: center middle;
        & > Vertical {
            width: 70%; min-width: 50; max-width: 90; height: auto; padding: 1 2;
            border: round $warning; background: $surface;
        }
        & #type-title { text-style: bold; margin-bottom: 1; }
        & TextField { height: 1; border: none; padding: 0 1; background: $cursor; margin: 1 0; }
        & TextField:focus { background-tint: $primary 25%; border: none; }
        & #type-keys { color: $dim; }
        & #type-keys.-wrong { color: $error; text-style: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", tooltip="Leave everything as it is"),
    ]
    give_ids("type-name", BINDINGS)

    def __init__(self, title: str, words: str, name: str) -> None:
        super().__init__()
        self._title, self._words, self._wanted = title, words, name

    def compose(self) -> ComposeResult:
        """Lay out the question, the field and its keys."""
        with Vertical():
            yield Static(Content(self._title), id="type-title")
            yield Static(Content(self._words))
            yield TextField(placeholder=self._wanted)
            yield Static("enter  confirm      esc  leave", id="type-keys")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        if event.value.strip() == self._wanted:
            self.dismiss(True)  # noqa: FBT003 - the screen's answer
            return
        keys = self.query_one("#type-keys", Static)
        keys.add_class("-wrong")
        keys.update(Content(f"! Type {self._wanted} to confirm, or press esc to leave."))

    def action_leave(self) -> None:
        """Leave everything as it is."""
        self.dismiss(False)  # noqa: FBT003 - the screen's answer
