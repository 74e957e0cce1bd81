"""The view under NO_COLOR: shades of grey, and bold words for trouble.

A red is a dark grey without its colour, so an alarm would be dimmer than the words beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter, monochrome_style
from textual.theme import Theme

from ktui.tui.draw.roles import TROUBLE


class GreyFilter(LineFilter):
    """Turns colours into greys; what is drawn in a colour of trouble is plain and bold.

    Args:
        theme: returns the theme in force.
    """

    def __init__(self, theme: Callable[[], Theme]) -> None:
        super().__init__()
        self._theme = theme
        self._known: tuple[Theme, frozenset[RichColor], RichColor] | None = None

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without colours."""
        del background
        alarms, plain = self._alarms()
        return [
            Segment(text, None if style is None else _grey(style, alarms, plain), control)
            for text, style, control in segments
        ]

    def _alarms(self) -> tuple[frozenset[RichColor], RichColor]:
        """Return the colours of trouble in the theme, and its colour of plain words."""
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
