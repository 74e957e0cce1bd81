"""What screens look like: a title on a rule, a table with a panel below it, a box of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Static

from ktui.tui.draw.cells import Piece, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import RowColumn, border_title, content, role_style, ruled, titled_rule
from ktui.tui.widgets.bindings import bind, give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.lines import set_text
from ktui.tui.widgets.services import ReportsOwnErrors, services

ResultT = TypeVar("ResultT")
CELL_PADDING = 2  # cells that a table adds around each of its cells
_LEAST_NAME = 12


class Panel(Vertical):
    """A panel under the list, below a rule with the digit that gives it the keys, and its title."""

    DEFAULT_CSS = "Panel > .rule { height: 1; }"
    DIGIT: ClassVar[int]
    TITLE: ClassVar[str]

    def compose(self) -> ComposeResult:
        yield Static(classes="rule", markup=False)
        yield from self.body()

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def draw_rule(self, title: Sequence[Piece] = (), *, corner: str = "") -> None:
        """Draw the rule; the title is bright while keys belong to the panel."""
        has_keys = self.has_focus_within
        digit = Piece(f"{self.DIGIT} ", "moving" if has_keys else "dim", bold=has_keys)
        first, *others = title or [Piece(self.TITLE, bold=True)]
        if has_keys:
            first = first._replace(role="moving", underline=True)
        rule = content(ruled([digit, first, *others], self.size.width, corner=corner))
        set_text(self.query_one(".rule", Static), rule)


class TitledScreen(Screen[ResultT], ReportsOwnErrors):
    """Shows its body between the header, a title on a rule, and the keys."""

    DEFAULT_CSS = """
    TitledScreen {
        background: $background;
        & > .title { height: 1; }
        & > VerticalScroll { scrollbar-size-vertical: 1; }
        & .-away { display: none; }
    }
    """

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield Static(classes="title", markup=False)
        yield from self.body()
        yield FooterKeys()

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def heading(self) -> Content:
        raise NotImplementedError

    def current(self, words: Content) -> Content:
        """Draw words without colours while the cluster does not answer."""
        lost = services(self).outage is not None
        return Content.styled(words.plain, "$dim") if lost else words

    @on(Resize)
    def draw_title(self) -> None:
        rule = titled_rule(self.heading(), self.size.width)
        set_text(self.query_one(".title", Static), rule)


class BodyScreen(TitledScreen[ResultT]):
    """Has one body of text, which scrolls."""

    DEFAULT_CSS = """
    BodyScreen > VerticalScroll { padding: 1 2; }
    BodyScreen .text { height: auto; }
    """
    AUTO_FOCUS = "VerticalScroll"

    def body(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(classes="text", markup=False)


class TextScreen(BodyScreen[ResultT]):
    """Shows a text, with a key for the rest of it where it does not fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "pagedown", "page", "more",
            "Scroll down; pgup scrolls up", key_display="pgdn", priority=True,
        ),
    ]  # fmt: skip
    give_ids("text", BINDINGS)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action != "page" or (
            self.is_mounted and self.query_one(VerticalScroll).max_scroll_y > 0
        )

    def action_page(self) -> None:
        self.query_one(VerticalScroll).scroll_page_down(animate=False)

    def on_mount(self) -> None:
        self.draw_title()

    def show_text(self, text: Content | str) -> None:
        self.query_one(".text", Static).update(text)
        self.call_after_refresh(self.refresh_bindings)  # whether it scrolls is known by then


class RowTable(DataTable[Text]):
    """One row each; only cells that change are drawn again, and the cursor stays on its row."""

    def __init__(self) -> None:
        super().__init__(cursor_type="row", header_height=1)
        self.cursor_foreground_priority = "renderable"
        self._shape: list[tuple[str, int]] = []
        self._names: list[str] = []
        self._drawn: dict[tuple[str, str], list[Piece]] = {}

    @property
    def selected(self) -> str | None:
        return str(self.ordered_rows[self.cursor_row].key.value) if self.row_count else None

    def forget(self) -> None:
        self._shape = []

    def show(
        self, columns: Sequence[RowColumn], rows: Mapping[str, object], *, stale: bool = False
    ) -> None:
        """Draw the rows, in grey where they are `stale`, in columns as wide as they ask for."""
        cells = {name: [column.cell(row) for column in columns] for name, row in rows.items()}
        widths = self._widths(columns, list(cells.values()))
        shape = [(each.heading, width) for each, width in zip(columns, widths, strict=True)]
        chosen, at, before = self.selected, self.cursor_row, self._names
        self._names = list(rows)
        if shape != self._shape or [name for name in before if name in rows] != self._names:
            self._shape, self._drawn = shape, {}
            self.clear(columns=True)
            for column, width in zip(columns, widths, strict=True):
                heading = Text(column.heading, justify="right" if column.right else "left")
                self.add_column(heading, width=width, key=column.heading)
            for name in rows:
                self.add_row(*(Text() for _ in columns), key=name)
        else:
            for name in before:
                if name not in rows:
                    self.remove_row(name)
                    self._drawn = {key: cell for key, cell in self._drawn.items() if key[0] != name}
        if before != self._names or not self._drawn:
            self.move_cursor(row=self.get_row_index(str(chosen)) if chosen in rows else at)
        for name, row in cells.items():
            for column, width, cell in zip(columns, widths, row, strict=True):
                blank = [Piece(" " * (width - pieces_width(cell)))] if column.right else []
                fitted = cut_pieces([*blank, *cell], width)
                self._draw(name, column.heading, faded(fitted) if stale else fitted)

    def _widths(self, columns: Sequence[RowColumn], rows: Sequence[list[list[Piece]]]) -> list[int]:
        """Let the first column give way, if it asks for what its cells need."""
        needed = [
            column.width or max(len(column.heading), *(pieces_width(row[place]) for row in rows), 0)
            for place, column in enumerate(columns)
        ]
        if columns and not columns[0].width:
            left = self.app.size.width - 1 - sum(needed[1:]) - CELL_PADDING * len(columns)
            needed[0] = max(_LEAST_NAME, min(needed[0], left))  # 1 is for the scroll bar
        return needed

    def _draw(self, name: str, heading: str, cell: list[Piece]) -> None:
        if self._drawn.get((name, heading)) != cell:
            self._drawn[name, heading] = cell
            variables = self.app.theme_variables
            styled = (  # without a background, so that the row's shows through
                (piece.text, role_style(variables, piece.role or "foreground", bold=piece.bold))
                for piece in cell
            )
            self.update_cell(name, heading, Text.assemble(*styled, no_wrap=True))


class TableScreen(TitledScreen[None]):
    """Shows a table, and below it a panel about the row under the cursor."""

    CSS = """
    TableScreen {
        & > .empty { padding: 1 2; color: $dim; }
        & > RowTable {
            height: 1fr; background: $background; background-tint: $background 0%;
            scrollbar-size: 1 1;
            &:focus { background-tint: $background 0%; }
            & > .datatable--header { background: $background; color: $header; text-style: none; }
            & > .datatable--header-hover { background: $background; color: $foreground; }
            & > .datatable--cursor { background: $cursor; text-style: none; }
            & > .datatable--hover, & > .datatable--fixed { background: $background; }
        }
        & > VerticalScroll {
            height: auto; max-height: 40%; border-top: solid $rule; padding: 0 1 0 2;
            border-title-color: $foreground;
        }
    }
    """
    SCOPED_CSS = False  # its rules are for the screens made of it
    AUTO_FOCUS = "RowTable"
    TABLE: ClassVar[type[RowTable]]

    def body(self) -> ComposeResult:
        yield Static(classes="empty", markup=False)
        yield self.TABLE()
        with VerticalScroll():
            yield Static(classes="panel", markup=False)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._use_theme)
        self.draw()

    def _use_theme(self, _: object) -> None:
        self.table.forget()
        self.draw()

    @on(Resize)
    def _resized(self) -> None:
        self.draw()

    def draw(self) -> None:
        raise NotImplementedError

    def panel(self) -> tuple[Content, Content] | None:
        """Return the title and the text of the panel; None where no row is chosen."""
        raise NotImplementedError

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def show_rows(
        self,
        columns: Sequence[RowColumn],
        rows: Mapping[str, object],
        when_empty: str,
        *,
        stale: bool = False,
    ) -> None:
        self.table.show(columns, rows, stale=stale)
        self.table.set_class(not rows, "-away")
        empty = self.query_one(".empty", Static)
        empty.set_class(bool(rows), "-away")
        empty.update(Content(when_empty))
        self.draw_title()
        self.draw_panel()

    @on(DataTable.RowHighlighted)
    def draw_panel(self) -> None:
        shown, scroll = self.panel(), self.query_one(VerticalScroll)
        scroll.set_class(shown is None, "-away")
        if shown is not None:
            title, text = shown
            scroll.border_title = border_title(title)
            self.query_one(".panel", Static).update(text)


class BoxScreen(ModalScreen[ResultT]):
    """A box in the middle of the screen, over what was shown before."""

    DEFAULT_CSS = """
    BoxScreen {
        align: center middle;
        & > .box {
            width: 92%; max-width: 120; height: auto; max-height: 90%; padding: 1 2;
            border: round $primary; background: $surface;
            border-title-color: $foreground; border-subtitle-color: $dim;
            scrollbar-size-vertical: 1;
        }
    }
    """
