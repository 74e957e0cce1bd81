"""Turn pieces, which name roles, into styled segments of the theme in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content

from ktui.tui.draw.cells import Piece
from ktui.tui.draw.roles import role_style


class Paint:
    """The styles of one theme; make a new one when the theme changes."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._styles: dict[tuple[str, bool, bool, str], Style] = {}

    def style(self, piece: Piece, behind: str = "background") -> Style:
        """Return the Rich style of a piece, on the colour of the role behind it."""
        key = (piece.role, piece.bold, piece.underline, behind)
        style = self._styles.get(key)
        if style is None:
            style = role_style(self._variables, piece.role or "foreground", bold=piece.bold)
            style += Style(underline=piece.underline or None) + self.background(behind)
            self._styles[key] = style
        return style

    def background(self, role: str) -> Style:
        """Return a style that fills a role's colour behind a text."""
        return Style(bgcolor=Color.parse(self._variables[role]).rich_color)

    def segments(self, pieces: Iterable[Piece], behind: str) -> list[Segment]:
        """Return the segments of pieces on a role's colour; blanks join the segment before them."""
        segments: list[Segment] = []
        text, style = "", None
        for piece in pieces:
            if style is not None and piece.text.isspace() and not style.underline:
                text += piece.text
                continue
            if style is not None:
                segments.append(Segment(text, style))
            text, style = piece.text, self.style(piece, behind)
        return [*segments, Segment(text, style)] if style is not None else segments


def content(pieces: Iterable[Piece]) -> Content:
    """Return pieces as Textual content, which takes its colours from the theme when drawn.

    Leading spaces have no style, so that a screenshot places the words exactly.
    """
    parts: list[tuple[str, str]] = []
    for piece in pieces:
        text = piece.text.lstrip(" ") if piece.role != "badge" else piece.text
        parts += [(" " * (len(piece.text) - len(text)), ""), (text, _markup(piece))]
    return Content.assemble(*parts)


def _markup(piece: Piece) -> str:
    if piece.role == "badge":
        return "bold $badge-text on $badge"
    words = [f"${piece.role or 'foreground'}"]
    words += ["bold"] * piece.bold + ["underline"] * piece.underline
    return " ".join(words)
