"""How pieces become what a terminal shows: roles, styles, titles, and greys without colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import msgspec
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.filter import LineFilter, monochrome_style
from textual.theme import Theme

from ktui.columns import Column
from ktui.tui.draw.cells import Piece, cut_pieces, pieces_width

MUTED, FAINT, TINTED = "muted", "faint", "tinted"
"""Shades between foreground, or primary, and background that a role may default to."""


class ColourRole(msgspec.Struct, frozen=True):
    """One meaning that the screens draw in a colour of its own."""

    meaning: str
    default: str  # the base colour or shade where a theme gives the role none
    text: bool = True


ROLES: Mapping[str, ColourRole] = MappingProxyType(
    {
        "retiring": ColourRole("a replica that the reassignment removes", "secondary"),
        "in-sync": ColourRole(
            "as wanted: a replica in the ISR, and a reassignment that reached its target", "success"
        ),
        "leader": ColourRole("the leader", "warning"),
        "next-leader": ColourRole("the preferred leader while another leads", "warning"),
        "out-of-sync": ColourRole("a replica that should be in the ISR and is not", "error"),
        "moving": ColourRole(
            "under way: a partition, a replica being added, its share caught up", "primary"
        ),
        "stalled": ColourRole("no headway: a stalled replica, and its partition", "error"),
        "falling-behind": ColourRole("an adding replica whose lag rises", "warning"),
        "waiting": ColourRole("queued, settling or not yet known", MUTED),
        "cancelled": ColourRole("a reassignment that was cancelled", "warning"),
        "foreign": ColourRole("a reassignment that someone else started or changed", "accent"),
        "header": ColourRole("headings of columns and sections", "secondary"),
        "dim": ColourRole("labels, units, axes, times, and what is gone", MUTED),
        "badge": ColourRole("the background of a badge such as READ-ONLY", "warning", text=False),
        "badge-text": ColourRole("the words on a badge", "background", text=False),
        "rule": ColourRole("lines between parts, and the empty part of a bar", FAINT, text=False),
        "cursor": ColourRole("the background of the row under the cursor", TINTED, text=False),
    }
)

TROUBLE = ("stalled", "out-of-sync", "falling-behind")
"""The roles that must be seen first, also without colour."""


def role_defaults(theme: Theme) -> dict[str, str]:
    """Return every role's colour in a theme that may define none."""
    base = _base_colors(theme)
    return {name: base[role.default] for name, role in ROLES.items()}


def role_style(variables: Mapping[str, str], role: str, *, bold: bool = False) -> Style:
    """Return the Rich style of a role, or of a base colour, from `App.theme_variables`."""
    return Style(color=Color.parse(variables[role]).rich_color, bold=bold or None)


def _base_colors(theme: Theme) -> dict[str, str]:
    background = theme.background or ("#121212" if theme.dark else "#efefef")
    foreground = theme.foreground or Color.parse(background).inverse.hex
    return {
        "primary": theme.primary,
        "secondary": theme.secondary or theme.primary,
        "warning": theme.warning or theme.primary,
        "error": theme.error or theme.primary,
        "success": theme.success or theme.primary,
        "accent": theme.accent or theme.primary,
        "background": background,
        MUTED: _between(foreground, background, 0.4),
        FAINT: _between(foreground, background, 0.75),
        TINTED: theme.primary if theme.ansi else _between(theme.primary, background, 0.75),
    }


def _between(color: str, background: str, share: float) -> str:
    """Blend two colours; ANSI ones have no shades between them, so the first stays."""
    start, end = Color.parse(color), Color.parse(background)
    if start.ansi is not None or end.ansi is not None:
        return color
    return start.blend(end, share).hex


class Paint:
    """The styles of one theme; make a new one when the theme changes."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._styles: dict[tuple[str, bool, bool, str], Style] = {}

    def style(self, piece: Piece, behind: str = "background") -> Style:
        key = (piece.role, piece.bold, piece.underline, behind)
        style = self._styles.get(key)
        if style is None:
            style = role_style(self._variables, piece.role or "foreground", bold=piece.bold)
            style += Style(underline=piece.underline or None) + self.background(behind)
            self._styles[key] = style
        return style

    def background(self, role: str) -> Style:
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


_BEFORE = "─ "
_BETWEEN = "  "  # two columns of a table


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


RowColumn = Column[list[Piece]]


def table_lines(
    columns: Iterable[RowColumn], rows: Sequence[object], role: str = "header"
) -> list[list[Piece]]:
    """Lay out a heading and a line for each row; each column is as wide as its widest cell."""
    lines: list[list[Piece]] = [[] for _ in (None, *rows)]
    for column in columns:
        cells = [[Piece(column.heading, role)], *map(column.cell, rows)]
        width = max(column.width, *map(pieces_width, cells))
        for line, cell in zip(lines, cells, strict=True):
            blank = Piece(" " * (width - pieces_width(cell)))
            line.extend([Piece(_BETWEEN)] if line else [])
            line.extend([blank, *cell] if column.right else [*cell, blank])
    return lines


class GreyFilter(LineFilter):
    """Turns colours into greys; what is drawn in a colour of trouble is plain and bold."""

    def __init__(self, theme: Callable[[], Theme]) -> None:
        super().__init__()
        self._theme = theme
        self._known: tuple[Theme, frozenset[RichColor], RichColor] | None = None

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        alarms, plain = self._alarms()
        return [
            Segment(text, None if style is None else _grey(style, alarms, plain), control)
            for text, style, control in segments
        ]

    def _alarms(self) -> tuple[frozenset[RichColor], RichColor]:
        theme = self._theme()
        if self._known is None or self._known[0] is not theme:
            colours = [theme.variables.get(role) for role in TROUBLE] + [theme.error, theme.warning]
            found = frozenset(Color.parse(each).rich_color for each in colours if each)
            self._known = theme, found, Color.parse(theme.foreground or "white").rich_color
        return self._known[1:]


@lru_cache(2048)
def _grey(style: Style, alarms: frozenset[RichColor], plain: RichColor) -> Style:
    if style.color in alarms:
        style += Style(color=plain, bold=True)
    return monochrome_style(style)
