"""One of some words, chosen with the arrow keys where the focus is, or by a click."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from ktui.tui.widgets.choices import Choices

_LABEL_CELLS = 17
"""As wide as what stands before the fields of a form."""


class Picked(Choices, can_focus=True):
    """Choices side by side among the fields of a form; posts `Chosen` when another is picked.

    Args:
        label: what is chosen.
        words: the choices.
        place: the one at first.
    """

    DEFAULT_CSS = """
    Picked { padding: 0; }
    Picked:focus { background: $cursor; }
    """
    LABEL_ROLE = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "choose", key_display="←→", tooltip="Choose another"),
        Binding("right", "step(1)", "choose", show=False, tooltip="Choose another"),
        Binding("up", "app.focus_previous", "up", show=False, tooltip="Go to the field above"),
        Binding("down,enter", "app.focus_next", "down", show=False, tooltip="Go to the next field"),
    ]

    def __init__(
        self,
        label: str,
        words: Sequence[str],
        *,
        id: str,  # noqa: A002 - as Textual names it
        place: int = 0,
    ) -> None:
        super().__init__(f"{label:<{_LABEL_CELLS}}", words, id=id, across=True)
        self._count = len(words)
        self.show(place)

    @property
    def place(self) -> int:
        """Which is chosen."""
        return self._place

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Keep letters from the footer: among fields none of them is a command."""
        del key
        return character is not None and character.isalpha()

    def action_step(self, step: int) -> None:
        """Choose the next one, or the one before."""
        self.post_message(self.Chosen(self, (self._place + step) % self._count))

    @on(Choices.Chosen)
    def _pick(self, event: Choices.Chosen) -> None:
        self.show(event.place)
