"""The headings of the partition list's columns; a click on one sorts by it."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ktui.progress.slots import RECENT_SLOT_S
from ktui.tui.draw.cells import Piece, cut
from ktui.tui.draw.paint import content
from ktui.tui.screens.watch.columns import CURSOR_WIDTH, Column, ColumnLayout
from ktui.tui.screens.watch.sort import Ordering

_NOW = "now"


class Headings(Widget):
    """The headings in one line above the list, aligned with the list's columns."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Headings { height: 1; background: $background; }"

    class Clicked(Message):
        """The operator wants to sort by a column."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    def __init__(self) -> None:
        super().__init__()
        self._layout: ColumnLayout | None = None
        self._ordering = Ordering()

    def show(self, layout: ColumnLayout, ordering: Ordering) -> None:
        """Show the list's columns and its order."""
        if (layout, ordering) != (self._layout, self._ordering):
            self._layout, self._ordering = layout, ordering
            self.refresh()

    def render(self) -> Content:
        if self._layout is None:
            return Content("")
        gap = Piece(" " * self._layout.gap)
        pieces = [Piece(" " * CURSOR_WIDTH)]
        for column, width in self._layout.columns:
            pieces += [self._heading(self._layout, column, width), gap]
        return content(pieces)

    def _heading(self, layout: ColumnLayout, column: Column, width: int) -> Piece:
        if column is Column.TIMELINE:
            return Piece(_axis(width, layout.span), "header")
        sorted_by = column == self._ordering.by
        text = f"{column.value} {self._ordering.arrow}" if sorted_by else column.value
        text = "" if column is Column.REASON else text
        fitted = text.rjust(width) if column.numeric else cut(text, "", width)
        return Piece(fitted, "header", bold=sorted_by)

    def on_click(self, event: events.Click) -> None:
        column = self._layout.at(event.x) if self._layout is not None else None
        if column is not None:
            self.post_message(self.Clicked(column))


def _axis(width: int, span: int) -> str:
    reach = f"-{span * RECENT_SLOT_S / 60:.0f} min"
    if width < len(reach) + len(_NOW) + 1:
        return reach[1:].rjust(width) if width >= len(reach) - 1 else " " * width
    return reach + _NOW.rjust(width - len(reach))
