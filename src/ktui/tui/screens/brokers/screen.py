"""The Brokers screen: the load that reassignments put on each broker, and its capacity."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size

from ktui.cluster.broker import LogDir
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.columns import leave_out
from ktui.execution.broker.status import NOTHING
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import RowColumn, content, panel_title
from ktui.tui.screens.brokers.lanes import broker_lanes, moves_here
from ktui.tui.screens.brokers.row import (
    CORDON_SIGN,
    BrokerView,
    address,
    alive_piece,
    broker_columns,
    disk_bar,
    disk_usage,
    throttle,
    views_now,
)
from ktui.tui.screens.brokers.status import way_out
from ktui.tui.screens.watch.words import build_row_context
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.frame import CELL_PADDING, RowTable, TableScreen
from ktui.tui.widgets.lines import broker_objective, facts
from ktui.tui.widgets.services import services

_BAR = 20
_ROOM = ((190, (10, 16)), (110, (8, 12)), (0, (4, 8)))
"""The cells of the bar and of the graphs in the table, by the width of the screen."""
_COLUMNS = {"leads": "leader of", "holds": "replicas"}
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
        ("leads", Content(_number_of("partition", view.leaders))),
        ("holds", Content(_number_of("replica", view.replicas))),
        ("behind by", Content(_lag(view))),
        ("cordoned", Content(_cordoned(view))),
    ]
    pairs = [
        (name, words)
        for name, words in pairs
        if _COLUMNS.get(name, name) not in shown
        and words.plain not in _NOTHING_TO_SAY.get(name, ())
    ]
    why = [Content.styled(words, "$dim")] if (words := _broker_note(view)) else []
    failed = [Content.styled(f"! {each.sentence}", "$warning") for each in view.failures]
    if view.proven_empty is not None:
        proven = f"✓ empty, as proven at {figures.as_time(view.proven_empty)}: {NOTHING}"
        why = [Content.styled(proven, "$success")]
    return [*why, *facts(pairs, width), *(facts(held, width) if held else ()), *failed]


_NOTHING_TO_SAY = {"behind by": (figures.UNKNOWN,), "cordoned": ("no", figures.UNKNOWN)}


def _broker_note(view: BrokerView) -> str:
    if view.broker is None:
        return (
            "Not registered: only replica lists name it. It was removed, or has not come back yet."
        )
    if not view.broker.alive:
        return "Registered but fenced: stopped, starting or shutting down; it leads nothing."
    return ""


def run_lines(view: BrokerView, run: str, at: datetime, *, manages: bool = True) -> list[Content]:
    """Describe what a run moves off a broker and onto it, and what waits while it is down."""
    if not view.alive:
        return _down_lines(view, run, at, manages=manages)
    off, off_left, onto, onto_left = view.to_move
    each = (("takes", "off", off, off_left), ("brings", "to", onto, onto_left))
    return [
        Content.assemble(
            ("run ", "$dim"),
            f"{run} {verb} {figures.as_count(whole, 'replica')} {way} this broker: ",
            f"{whole - left:,} done, {left:,} left." if left else "all done.",
        )
        for verb, way, whole, left in each
        if run and whole
    ]


def _down_lines(view: BrokerView, run: str, at: datetime, *, manages: bool) -> list[Content]:
    waiting, since = view.to_move.onto_left, ""
    if view.down_s is not None:
        since = f" since {figures.as_time(at - timedelta(seconds=view.down_s))}"
    if not waiting:
        return [Content.styled(f"! DOWN{since}. No move to it waits for it.", "bold $error")]
    moves = f"{figures.as_count(waiting, 'move')}{f' of run {run}' if run else ''}"
    verb = "waits" if waiting == 1 else "wait"
    return [
        Content.styled(f"! DOWN{since}. {moves} {verb} for it.", "bold $error"),
        Content.assemble("Start it, and they go on.", *(_CALL_OFF if manages else ())),
    ]


_CALL_OFF = (
    " Or press ", ("m", "bold $primary"), ", then ", ("x", "bold $primary"),
    " to call all of them off.",
)  # fmt: skip


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


def log_dir_lines(view: BrokerView) -> list[Content]:
    """Return a line for each log dir, those that need an eye first."""
    dirs = sorted(view.log_dirs, key=lambda d: (d.error is None, not d.cordoned, d.path))
    return list(map(_log_dir, dirs))


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


_FEW_DIRS = 4
_FRAME = 5
"""The lines of the header, the titles and the keys."""

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
    CSS = f"""
    {TableScreen.CSS}
    BrokersScreen {{
        & > RowTable {{ height: auto; max-height: 50%; }}
        & > VerticalScroll {{ height: 1fr; max-height: 100%; }}
    }}
    """
    TABLE = BrokerTable
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "dismiss", "back", "Go back to the list", key_display="esc"),
        *_KEYS,
    ]
    give_ids("brokers", BINDINGS)
    _views: Mapping[int, BrokerView] = {}
    _cursor_placed = False

    @property
    def interest(self) -> Interest:
        return Interest(census=True)

    def show_progress(self) -> None:
        progress = services(self).progress
        if progress.last is None:
            return
        self._views = views_now(services(self))
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
    def _columns(self) -> Sequence[RowColumn]:
        brokers, width = list(self._views.values()), self.size.width - 1  # for the scroll bar
        bar, cells = next(room for least, room in _ROOM if width >= least)
        minutes = brokers[0].past.minutes if brokers else 1
        columns = broker_columns(bar, cells, minutes)
        wanted = [column for column in columns if not brokers or any(map(column.has, brokers))]

        def fit(shown: Sequence[RowColumn]) -> bool:
            return sum(each.width + CELL_PADDING for each in shown) <= width

        return leave_out(wanted, fit)

    def draw(self) -> None:
        rows = {str(broker): view for broker, view in self._views.items()}
        when_empty = NOTHING_YET if self._last is None else NO_BROKERS
        stale = services(self).outage is not None
        self.show_rows(self._columns, rows, when_empty, stale=stale)
        if rows and not self._cursor_placed:
            self._cursor_placed = True
            self.table.move_cursor(row=self.table.get_row_index(str(self._worst)))

    @property
    def _worst(self) -> int:
        """The broker that most needs an eye: one that is down, or receives the most."""

        def rank(view: BrokerView) -> tuple[bool, float, int, int]:
            move = view.to_move
            left = move.off_left + move.onto_left
            return not view.alive, view.load.flow.in_s or 0.0, left, -view.id

        return max(self._views.values(), key=rank).id

    @property
    def _last(self) -> Observation | None:
        return services(self).progress.last

    def panel(self) -> tuple[Content, Content] | None:
        view, last = None if self.selected is None else self._views.get(self.selected), self._last
        if view is None or last is None:
            return None
        app, width = services(self), max(40, self.size.width - 4)
        rows = None if app.attached is None else app.attached.rows
        shown = {column.heading for column in self._columns}
        run = "" if rows is None or rows.run.ended else rows.run.name
        lines = [
            *run_lines(view, run, last.at, manages=app.abilities.works("manage_broker")),
            *broker_panel(view, width, shown, self._held(view.id)),
        ]
        context = build_row_context(last, rows, health_first=False)
        moves = moves_here(view, app.progress.timelines, rows)
        dirs = log_dir_lines(view)
        first = len(dirs) if len(dirs) <= _FEW_DIRS else 0  # many would hide what is below them
        room = Size(width, self._panel_room - len(lines) - first - 1)
        lanes = map(content, broker_lanes(self._views, view.id, moves, context, room))
        lines += [*dirs[:first], *lanes, *dirs[first:]]
        if not view.load.adding:  # who fills a broker does not ask for the way out of it
            lines.append(Content.styled(way_out(view.id), "$dim"))
        title = panel_title(f"broker {view.id}", None, content([alive_piece(view)]))
        return self.current(title), self.current(Content("\n").join(lines))

    @property
    def _panel_room(self) -> int:
        """The lines below the table, which has as many as its rows, half of the screen at most."""
        height = self.size.height
        return height - _FRAME - min(height // 2, 1 + len(self._views))

    def _held(self, broker: int) -> list[tuple[str, Content]]:
        attached = services(self).attached
        if attached is None or attached.run.ended:
            return []
        throttled = attached.run.throttled
        if throttled.rates.objective is None or throttled.held_at is None:
            return []
        return broker_objective(throttled.rates.objective, throttled.held_at, broker)

    def heading(self) -> Content:
        last = self._last
        if last is None:
            return self.current(panel_title("brokers"))
        counted = Content.styled(_counted(last), "$dim")
        return self.current(panel_title("brokers", len(self._views), counted))


def _counted(observation: Observation) -> str:
    census = observation.census
    if census is None:
        return "leaders and replicas are being counted"
    count = figures.as_count(census.partitions, "partition")
    return f"{count} counted at {figures.as_time(census.at)}"
