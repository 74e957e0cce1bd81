"""Text of a `Static`, drawn again only where it has changed, and laid out only where it must be."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


def set_text(static: Static, text: Content, *, wraps: bool = False) -> None:
    """Show a text; another layout of the whole screen is made only for another height.

    Args:
        static: the widget.
        text: the text.
        wraps: whether lines may be longer than the widget, so that any text may change its height.
    """
    before = static.content
    lines = -1
    if isinstance(before, Content):
        if before.plain == text.plain and before.spans == text.spans:
            return
        lines = before.plain.count("\n")
    static.update(text, layout=wraps or lines != text.plain.count("\n"))
