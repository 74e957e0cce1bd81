"""Lines of text that change every second, of which only those that did are drawn again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

_NOT_DRAWN = -1
"""A width that no widget has."""


class _Drawn(NamedTuple):
    """A line as it was drawn; one that is too long takes several strips."""

    line: Content
    strips: list[Strip]

    def shows(self, line: Content) -> bool:
        """Return whether another line would look the same."""
        return self.line.plain == line.plain and self.line.spans == line.spans


class Lines(Widget):
    """As high as its lines; a `Static` with the same text draws all of them for each change."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Lines { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._lines: Sequence[Content] = ()
        self._drawn: list[_Drawn] = []
        self._strips: list[Strip] = []
        self._width = _NOT_DRAWN

    def show(self, lines: Sequence[Content]) -> None:
        """Show other lines."""
        self._lines, before = lines, self._strips
        self._draw(self.size.width)
        if len(before) != len(self._strips):
            self.refresh(layout=True)
            return
        for y, (was, now) in enumerate(zip(before, self._strips, strict=True)):
            if was is not now:
                self.refresh(Region(0, y, self.size.width, 1))

    def _draw(self, width: int) -> None:
        known = self._drawn if width == self._width else []
        pairs = itertools.zip_longest(self._lines, known[: len(self._lines)])
        self._drawn = [
            drawn if drawn is not None and drawn.shows(line) else self._draw_line(line, width)
            for line, drawn in pairs
        ]
        self._width = width
        self._strips = [strip for drawn in self._drawn for strip in drawn.strips]

    def _draw_line(self, line: Content, width: int) -> _Drawn:
        return _Drawn(line, Visual.to_strips(self, line, width, None, self.visual_style))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        if width != self._width:
            self._draw(width)
        return len(self._strips)

    def render_line(self, y: int) -> Strip:
        if self.size.width != self._width:
            self._draw(self.size.width)
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.visual_style.rich_style)

    def notify_style_update(self) -> None:
        """Forget what was drawn in another theme."""
        super().notify_style_update()
        self._width = _NOT_DRAWN
