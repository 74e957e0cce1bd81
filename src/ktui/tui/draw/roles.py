"""The roles that screens colour, by meaning: the one list of roles that themes give colours to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

MUTED, FAINT, TINTED = "muted", "faint", "tinted"
"""Shades between foreground, or primary, and background that a role may default to."""


class ColourRole(msgspec.Struct, frozen=True):
    """One meaning that the screens draw in a colour of its own."""

    meaning: str
    default: str
    """The base colour or shade where a theme gives the role none."""
    text: bool = True
    """Whether words are drawn in this colour, so that it must stand out from the background."""


ROLES: Mapping[str, ColourRole] = MappingProxyType(
    {
        "retiring": ColourRole("a replica that the reassignment removes", "accent"),
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
    """Return every role's colour in a theme that may define none.

    `get_theme_variable_defaults` of an app returns these.
    """
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
