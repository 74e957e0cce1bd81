"""The line of keys at the bottom of every screen."""

from __future__ import annotations

from textual.widgets import Footer


class Keys(Footer):
    """Textual's footer as every screen has it: compact, in line with the text above."""

    DEFAULT_CSS = "Keys { padding-left: 2; }"

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
