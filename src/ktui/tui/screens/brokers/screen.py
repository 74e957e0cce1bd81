"""The Brokers screen: the load that reassignments put on each broker, and its capacity."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from ktui.cluster.broker import LogDir
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.execution.broker.status import NOTHING
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import RowColumn, content, panel_title
from ktui.tui.screens.brokers.row import (
    CORDON_SIGN,
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
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.frame import RowTable, TableScreen
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
    bind(
        "enter", "screen.partitions", "its partitions",
        "Show the partitions with a replica on this broker", key_display="↵",
    ),
    bind("s", "screen.broker_status", "status", "Show what this broker holds, and what keeps it"),
    bind(
        "m", "screen.manage_broker", "manage",
        "Drain, demote, shed, fill, cordon this broker, or pause or cancel what goes there",
    ),
    hidden("home", "screen.first", "first", "Go to the first broker"),
    hidden("end", "screen.last", "last", "Go to the last broker"),
]  # fmt: skip
give_ids("brokers", _KEYS)


class BrokerTable(RowTable):
    """One row per broker; enter chooses one, a click only moves the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = _KEYS


class BrokersScreen(TableScreen):
    """Shows the brokers; enter goes back to the list, filtered by broker."""

    TITLE = "brokers"
    TABLE = BrokerTable
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "dismiss", "back", "Go back to the list", key_display="esc"),
        *_KEYS,
    ]
    give_ids("brokers", BINDINGS)
    _views: Mapping[int, BrokerView] = {}

    @property
    def interest(self) -> Interest:
        return Interest(census=True)

    def show_progress(self) -> None:
        progress = services(self).progress
        if progress.last is None:
            return
        empty = services(self).broker_controller.proven_empty
        self._views = broker_views(progress.last, services(self).broker_loads, empty)
        if self.is_mounted:
            self.draw()
            if (broker := self.selected) is not None:
                services(self).broker_controller.prove_empty(broker)

    @property
    def selected(self) -> int | None:
        chosen = self.table.selected
        return None if chosen is None else int(chosen)

    def action_partitions(self) -> None:
        broker = self.selected
        if broker is None:
            return
        app = services(self)
        self.dismiss()
        app.filter_by_broker(broker)

    async def action_broker_status(self) -> None:
        if self.selected is not None:
            await services(self).broker_controller.show_status(self.selected)

    async def action_manage_broker(self) -> None:
        if self.selected is not None:
            await services(self).broker_controller.manage(self.selected)

    def action_first(self) -> None:
        self.table.move_cursor(row=0)

    def action_last(self) -> None:
        self.table.move_cursor(row=self.table.row_count - 1)

    @property
    def _columns(self) -> tuple[RowColumn, ...]:
        return columns_that_fit(self._views.values(), self.size.width)

    def draw(self) -> None:
        rows = {str(broker): view for broker, view in self._views.items()}
        when_empty = NOTHING_YET if self._last is None else NO_BROKERS
        stale = services(self).outage is not None
        self.show_rows(self._columns, rows, when_empty, stale=stale)

    @property
    def _last(self) -> Observation | None:
        return services(self).progress.last

    def panel(self) -> tuple[Content, Content] | None:
        view = None if self.selected is None else self._views.get(self.selected)
        if view is None:
            return None
        shown = {column.heading for column in self._columns}
        lines = broker_panel(view, max(40, self.size.width - 4), shown, self._held(view.id))
        title = panel_title(f"broker {view.id}", None, content([alive_piece(view)]))
        return self._current(title), self._current(Content("\n").join(lines))

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

    def heading(self) -> Content:
        last = self._last
        if last is None:
            return self._current(panel_title("brokers"))
        counted = Content.styled(_counted(last), "$dim")
        return self._current(panel_title("brokers", len(self._views), counted))


def _counted(observation: Observation) -> str:
    census = observation.census
    if census is None:
        return "leaders and replicas are being counted"
    count = figures.as_count(census.partitions, "partition")
    return f"{count} counted at {figures.as_time(census.at)}"
