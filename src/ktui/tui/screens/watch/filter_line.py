"""The line in which the list's filter is typed; it replaces the footer while it is open."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from ktui.tui.screens.watch.row_filter import HINT, BadFilter, RowFilter
from ktui.tui.widgets.text_field import TextField


class FilterLine(Horizontal):
    """Reports the filter while it is typed; an invalid one filters nothing."""

    DEFAULT_CSS = """
    FilterLine {
        height: 1;
        dock: bottom;
        background: $cursor;
        display: none;
        &.-open { display: block; }
        & > .label { width: auto; padding: 0 1; color: $primary; text-style: bold; }
        & > Input { width: 1fr; min-width: 20; height: 1; padding: 0; background: $cursor; }
        & > Input, & > Input:focus { border: none; }
        & > .said {
            width: auto; max-width: 60%; padding: 0 1; color: $warning;
            text-wrap: nowrap; text-overflow: ellipsis;
        }
    }
    """

    class Changed(Message):
        """The filter has changed."""

        def __init__(self, rowfilter: RowFilter) -> None:
            super().__init__()
            self.rowfilter = rowfilter

    class Closed(Message):
        """The line is closed; the filter stays as `Changed` reported it last."""

    def compose(self) -> ComposeResult:
        """Lay out the prompt, the text and its error."""
        yield Static("filter", classes="label")
        yield TextField(placeholder=HINT, select_on_focus=False)
        yield Static(classes="said", markup=False)

    @property
    def input(self) -> Input:
        """The field for the text."""
        return self.query_one(Input)

    def open(self) -> None:
        """Show the line and focus its field."""
        self.add_class("-open")
        self.input.focus()

    def clear(self) -> None:
        """Clear the filter, and close the line."""
        self.input.value = ""
        self.close()

    def close(self) -> None:
        """Close the line, keeping the filter."""
        self.remove_class("-open")
        self.post_message(self.Closed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        error_line = self.query_one(".said", Static)
        try:
            rowfilter = RowFilter(event.value)
        except BadFilter as problem:
            error_line.update(Content(str(problem)))
            rowfilter = RowFilter()
        else:
            error_line.update(Content(""))
        self.post_message(self.Changed(rowfilter))

    @on(Input.Submitted)
    def _kept(self, event: Input.Submitted) -> None:
        event.stop()
        self.close()
