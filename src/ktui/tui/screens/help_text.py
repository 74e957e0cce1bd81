"""The text of the help: keys and signs beside their meanings, which can be searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content

_INDENT, _SIGN_WIDTH = 2, 12
_FOUND, _CURRENT = "bold underline $warning", "bold reverse $warning"


class HelpSection(NamedTuple):
    """A title, and signs or keys with their meanings."""

    title: str
    rows: Sequence[tuple[Piece, str]]


class _Row(NamedTuple):
    """A title, a sign with its meaning, or neither: an empty line."""

    sign: Piece
    meaning: str = ""

    @property
    def text(self) -> str:
        return f"{self.sign.text} {self.meaning}"


class HelpText(Widget):
    """Draws sections, and finds the rows that have all words of a search in them.

    It is one widget, so that the help opens at once.
    """

    DEFAULT_CSS = """
    HelpText { height: auto; }
    """

    def __init__(self, sections: Sequence[HelpSection]) -> None:
        super().__init__()
        self._rows = list(_rows(sections))
        self._words: list[str] = []
        self.matches: list[int] = []
        """The rows that have all words in them."""
        self._current = 0

    @property
    def current(self) -> int:
        """The number of the match shown, from 1; 0 for none."""
        return self._current + 1 if self.matches else 0

    @property
    def current_line(self) -> int:
        """The line of that match."""
        rows = self._rows[: self.matches[self._current]] if self.matches else []
        return sum(len(_drawn(row, self.size.width)) for row in rows)

    def search(self, text: str) -> None:
        self._words = text.casefold().split()
        self.matches = [i for i, row in enumerate(self._rows) if self._words and self._has(row)]
        self._current = 0
        self.refresh()

    def _has(self, row: _Row) -> bool:
        text = row.text.casefold()
        return all(word in text for word in self._words)

    def step(self, by: int) -> None:
        """Go to another match; after the last comes the first."""
        if self.matches:
            self._current = (self._current + by) % len(self.matches)
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return sum(len(_drawn(row, width)) for row in self._rows)

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> Iterator[Content]:
        found = set(self.matches)
        shown = self.matches[self._current] if self.matches else None
        for number, row in enumerate(self._rows):
            for line in _drawn(row, width):
                if number in found:
                    yield self._highlighted(line, _CURRENT if number == shown else _FOUND)
                else:
                    yield line

    def _highlighted(self, line: Content, style: str) -> Content:
        text = line.plain.casefold()
        if len(text) != len(line.plain):  # places in the one are not those in the other
            return line.stylize(style)
        for word in self._words:
            at = text.find(word)
            while at >= 0:
                line = line.stylize(style, at, at + len(word))
                at = text.find(word, at + len(word))
        return line


def _rows(sections: Sequence[HelpSection]) -> Iterator[_Row]:
    for number, section in enumerate(sections):
        if number:
            yield _Row(Piece(""))
        yield _Row(Piece(section.title, "header", bold=True))
        for sign, meaning in section.rows:
            yield _Row(sign, meaning)


def _drawn(row: _Row, width: int) -> list[Content]:
    """Draw a row: a title stands at the left, a sign is indented with its meaning beside it."""
    if not row.meaning:
        return [content([row.sign])]
    signs = content([row.sign]).wrap(_SIGN_WIDTH)
    meanings = Content(row.meaning).wrap(max(1, width - _INDENT - _SIGN_WIDTH))
    return [
        Content.assemble(" " * _INDENT, sign, " " * (_SIGN_WIDTH - sign.cell_length), meaning)
        for sign, meaning in zip_longest(signs, meanings, fillvalue=Content(""))
    ]
