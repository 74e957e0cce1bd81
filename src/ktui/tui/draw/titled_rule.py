"""The title of a panel on the rule above it, alike on every screen."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ktui.tui.draw.cells import Piece, cut_pieces, pieces_width

_BEFORE = "─ "


def panel_title(name: str, count: int | None = None, *facts: Content) -> Content:
    """Put a title together: the name, how many there are, and what else belongs to it."""
    title = Content.styled(name, "bold $foreground")
    if count is not None:
        title = Content.assemble(title, (f" {count:,}", "$header"))
    for fact in facts:
        title = Content.assemble(title, (" · ", "$dim"), fact)
    return title


def border_title(title: Content) -> Content:
    """Set a title off from the border that a widget draws around it."""
    return Content.assemble(" ", title, " ")


def titled_rule(title: Content, width: int) -> Content:
    """Draw a title on a rule of `width` cells."""
    fitted = title.truncate(max(0, width - len(_BEFORE) - 2), ellipsis=True)
    after = "─" * (width - len(_BEFORE) - fitted.cell_length - 1)
    return Content.assemble((_BEFORE, "$rule"), fitted, (f" {after}", "$rule"))


def ruled(title: Sequence[Piece], width: int, *, corner: str = "") -> list[Piece]:
    """Draw the pieces of a title on a rule; `corner` is where another rule meets this one."""
    before = corner + _BEFORE
    if not title:
        return [Piece(corner + "─" * (width - len(corner)), "rule")]
    fitted = cut_pieces(title, min(pieces_width(title), max(0, width - len(before) - 2)))
    after = "─" * max(0, width - len(before) - pieces_width(fitted) - 1)
    return [Piece(before, "rule"), *fitted, Piece(f" {after}", "rule")]
