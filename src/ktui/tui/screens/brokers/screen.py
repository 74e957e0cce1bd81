"""The Brokers screen: the load that reassignments put on each broker, and its capacity."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Static

from ktui.cluster.broker import LogDir
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.execution.broker.status import NOTHING
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import border_title, content, panel_title, role_style, titled_rule
from ktui.tui.screens.brokers.row import (
    CORDON_SIGN,
    BrokerColumn,
    BrokerView,
    address,
    alive_piece,
    broker_views,
    columns_that_fit,
    disk_bar,
    disk_usage,
    throttle,
)
from ktui.tui.screens.brokers.status import way_out
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.lines import broker_objective, facts
from ktui.tui.widgets.services import services

_BAR = 20
_COLUMNS = {"leads": "leaders", "holds": "replicas"}
"""The columns that have another name than the fact that they show."""


def broker_panel(
    view: BrokerView, width: int, shown: Collection[str], held: Sequence[tuple[str, Content]] = ()
) -> list[Content]:
    """Lay out what is known about a broker beyond the columns that are shown."""
    rack = None if view.broker is None else view.broker.rack
    pairs = [
        ("address", Content(address(view))),
        ("rack", Content(rack or "none")),
        ("throttle", Content(throttle(view.config))),
        ("to catch up", Content(_lag(view))),
        ("leads", Content(_number_of("partition", view.leaders))),
        ("holds", Content(_number_of("replica", view.replicas))),
        ("cordoned", Content(_cordoned(view))),
    ]
    pairs = [pair for pair in pairs if _COLUMNS.get(pair[0], pair[0]) not in shown]
    why = [Content.styled(words, "$dim")] if (words := _broker_note(view)) else []
    dirs = sorted(view.log_dirs, key=lambda d: (d.error is None, not d.cordoned, d.path))
    failed = [Content.styled(f"! {each.sentence}", "$warning") for each in view.failures]
    if view.proven_empty is not None:
        proven = f"✓ empty, as proven at {figures.as_time(view.proven_empty)}: {NOTHING}"
        why = [Content.styled(proven, "$success")]
    lines = [*why, *facts(pairs, width), *(facts(held, width) if held else ()), *failed]
    return [*lines, *map(_log_dir, dirs), Content.styled(way_out(view.id), "$dim")]


def _broker_note(view: BrokerView) -> str:
    if view.broker is None:
        return (
            "Not registered: only replica lists name it. It was removed, or has not come back yet."
        )
    if not view.broker.alive:
        return "Registered but fenced: stopped, starting or shutting down; it leads nothing."
    return ""


def _cordoned(view: BrokerView) -> str:
    if not view.log_dirs:
        return figures.UNKNOWN
    return f"{CORDON_SIGN} {view.cordoned}" if view.cordoned else "no"


def _lag(view: BrokerView) -> str:
    load = view.load
    if load.lag_messages is None and load.lag_bytes is None:
        return figures.UNKNOWN
    return f"{figures.as_messages(load.lag_messages)}, {figures.as_bytes(load.lag_bytes)}"


def _number_of(noun: str, count: int | None) -> str:
    return "being counted" if count is None else figures.as_count(count, noun)


def _log_dir(log_dir: LogDir) -> Content:
    used = disk_usage(log_dir)
    room = [] if used is None else disk_bar(*used, _BAR)
    sizes = "" if used is None else f"  {figures.as_bytes(used[0])} of {figures.as_bytes(used[1])}"
    error = f"! offline: {log_dir.error}  " if log_dir.error is not None else ""
    cordoned = f"{CORDON_SIGN} cordoned  " if log_dir.cordoned else ""
    pieces = [
        Piece("log dir  ", "dim"), *room, Piece(f"{sizes}  " if used else ""),
        Piece(error, "stalled"), Piece(cordoned, "falling-behind"), Piece(log_dir.path),
    ]  # fmt: skip
    return content(pieces)


NOTHING_YET = "Waiting for the first answer of the cluster."
NO_BROKERS = "The cluster names no brokers."


_KEYS: list[BindingType] = [
    Binding(
        "enter", "screen.partitions", "its partitions", key_display="↵",
        tooltip="Show the partitions with a replica on this broker",
    ),
    Binding(
        "s", "screen.broker_status", "status",
        tooltip="Show what this broker holds, and what keeps it",
    ),
    Binding(
        "m", "screen.manage_broker", "manage",
        tooltip="Drain, demote, shed, fill, cordon this broker, or pause or cancel what goes there",
    ),
    Binding("home", "screen.first", "first", show=False, tooltip="Go to the first broker"),
    Binding("end", "screen.last", "last", show=False, tooltip="Go to the last broker"),
]  # fmt: skip
give_ids("brokers", _KEYS)


class BrokerTable(DataTable[Text]):
    """One row per broker; enter chooses one, a click only moves the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = _KEYS


class BrokersScreen(Screen[None]):
    """Shows the brokers; enter goes back to the list, filtered by broker."""

    CSS = """
    BrokersScreen {
        background: $background;
        & > #brokers-title { height: 1; }
        & > #brokers-empty { padding: 1 2; color: $dim; }
        & > BrokerTable {
            height: 1fr; background: $background; background-tint: $background 0%;
            scrollbar-size: 1 1;
            &:focus { background-tint: $background 0%; }
            & > .datatable--header { background: $background; color: $header; text-style: none; }
            & > .datatable--header-hover { background: $background; color: $foreground; }
            & > .datatable--cursor { background: $cursor; text-style: none; }
            & > .datatable--hover { background: $background; }
            & > .datatable--fixed { background: $background; }
        }
        & > VerticalScroll {
            height: auto; max-height: 40%; border-top: solid $rule;
            border-title-color: $foreground; padding: 0 1 0 2; scrollbar-size-vertical: 1;
        }
        & .-away { display: none; }
    }
    """
    AUTO_FOCUS = "BrokerTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back", key_display="esc", tooltip="Go back to the list"),
        *_KEYS,
    ]
    give_ids("brokers", BINDINGS)

    def __init__(self) -> None:
        super().__init__()
        self._views: Mapping[int, BrokerView] = {}
        self._columns: tuple[BrokerColumn, ...] = ()
        self._drawn: dict[int, list[list[Piece]]] = {}

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield Static(id="brokers-title", markup=False)
        yield Static(NOTHING_YET, id="brokers-empty", markup=False)
        table = BrokerTable(cursor_type="row", header_height=1)
        table.cursor_foreground_priority = "renderable"
        yield table
        with VerticalScroll():
            yield Static(id="broker-panel", markup=False)
        yield FooterKeys()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._redraw)
        self._redraw()

    @property
    def interest(self) -> Interest:
        return Interest(census=True)

    def show_progress(self) -> None:
        progress = services(self).progress
        if progress.last is None:
            return
        empty = services(self).proven_empty
        self._views = broker_views(progress.last, services(self).broker_loads, empty)
        if self.is_mounted:
            self._draw()
            if (broker := self.selected) is not None:
                services(self).prove_empty(broker)

    @property
    def selected(self) -> int | None:
        table = self._table
        if not table.row_count:
            return None
        return int(table.ordered_rows[table.cursor_row].key.value or 0)

    @property
    def _table(self) -> BrokerTable:
        return self.query_one(BrokerTable)

    def action_partitions(self) -> None:
        broker = self.selected
        if broker is None:
            return
        app = services(self)
        self.dismiss()
        app.filter_by_broker(broker)

    async def action_broker_status(self) -> None:
        if self.selected is not None:
            await services(self).show_broker_status(self.selected)

    async def action_manage_broker(self) -> None:
        if self.selected is not None:
            await services(self).manage_broker(self.selected)

    def action_first(self) -> None:
        self._table.move_cursor(row=0)

    def action_last(self) -> None:
        self._table.move_cursor(row=self._table.row_count - 1)

    @on(Resize)
    def _redraw(self, _: Any = None) -> None:
        table = self._table
        broker = self.selected
        self._columns = columns_that_fit(self._views.values(), self.size.width)
        self._drawn = {}
        table.clear(columns=True)
        for column in self._columns:
            heading = Text(column.heading, justify="right" if column.right else "left")
            table.add_column(heading, width=column.width, key=column.heading)
        self._draw()
        self._restore_cursor(broker)

    def _draw(self) -> None:
        if self._columns != columns_that_fit(self._views.values(), self.size.width):
            self._redraw()
            return
        self._draw_rows()
        self._table.set_class(not self._views, "-away")
        empty = self.query_one("#brokers-empty", Static)
        empty.set_class(bool(self._views), "-away")
        empty.update(NOTHING_YET if self._last is None else NO_BROKERS)
        self.query_one("#brokers-title", Static).update(
            titled_rule(self._current(self._title()), self.size.width)
        )
        self._draw_panel()

    @property
    def _last(self) -> Observation | None:
        return services(self).progress.last

    def _draw_rows(self) -> None:
        table, broker = self._table, self.selected
        removed = self._drawn.keys() - self._views.keys()
        added = self._views.keys() - self._drawn.keys()
        for each in removed:
            table.remove_row(str(each))
            del self._drawn[each]
        for each in sorted(added):
            table.add_row(*(Text() for _ in self._columns), key=str(each))
            self._drawn[each] = [[] for _ in self._columns]
        stale = services(self).outage is not None
        for each, view in self._views.items():
            self._draw_row(each, view, stale=stale)
        if removed or added:
            table.sort(key=lambda row: int(row[0].plain))
            self._restore_cursor(broker)

    def _draw_row(self, broker: int, view: BrokerView, *, stale: bool) -> None:
        drawn = self._drawn[broker]
        for place, column in enumerate(self._columns):
            pieces = _fitted(column.cell(view), column)
            pieces = faded(pieces) if stale else pieces
            if pieces != drawn[place]:
                drawn[place] = pieces
                cell = _text(pieces, self.app.theme_variables)
                self._table.update_cell(str(broker), column.heading, cell)

    def _restore_cursor(self, broker: int | None) -> None:
        if broker is not None and broker in self._drawn:
            self._table.move_cursor(row=self._table.get_row_index(str(broker)), scroll=False)

    @on(DataTable.RowHighlighted)
    def _draw_panel(self) -> None:
        broker = self.selected
        view = None if broker is None else self._views.get(broker)
        scroll = self.query_one(VerticalScroll)
        scroll.set_class(view is None, "-away")
        if view is not None:
            shown = {column.heading for column in self._columns}
            lines = broker_panel(view, max(40, self.size.width - 4), shown, self._held(view.id))
            title = panel_title(f"broker {view.id}", None, content([alive_piece(view)]))
            scroll.border_title = border_title(self._current(title))
            panel = self.query_one("#broker-panel", Static)
            panel.update(self._current(Content("\n").join(lines)))

    def _held(self, broker: int) -> list[tuple[str, Content]]:
        attached = services(self).attached
        if attached is None or attached.run.ended:
            return []
        throttled = attached.run.throttled
        if throttled.rates.objective is None or throttled.held_at is None:
            return []
        return broker_objective(throttled.rates.objective, throttled.held_at, broker)

    def _current(self, words: Content) -> Content:
        return words if services(self).outage is None else Content.styled(words.plain, "$dim")

    def _title(self) -> Content:
        last = self._last
        if last is None:
            return panel_title("brokers")
        return panel_title("brokers", len(self._views), Content.styled(_counted(last), "$dim"))


def _counted(observation: Observation) -> str:
    census = observation.census
    if census is None:
        return "leaders and replicas are being counted"
    count = figures.as_count(census.partitions, "partition")
    return f"{count} counted at {figures.as_time(census.at)}"


def _fitted(pieces: list[Piece], column: BrokerColumn) -> list[Piece]:
    blank = [Piece(" " * (column.width - pieces_width(pieces)))] if column.right else []
    return cut_pieces([*blank, *pieces], column.width)


def _text(pieces: list[Piece], variables: Mapping[str, str]) -> Text:
    """Build a cell without a background, so that the row's background shows through."""
    styled = (
        (piece.text, role_style(variables, piece.role or "foreground", bold=piece.bold))
        for piece in pieces
    )
    return Text.assemble(*styled, no_wrap=True)
