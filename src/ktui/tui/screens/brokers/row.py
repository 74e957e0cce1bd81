"""What is known about a broker, and its row: on the brokers screen, below the list, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.events import Resize

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, all_cordoned
from ktui.cluster.errors import Failure
from ktui.cluster.observation import Observation
from ktui.columns import Column, leave_out
from ktui.progress.flows import SLOT_S, BrokerFlow, Flows, flow_slots, seen_slots
from ktui.progress.summary import BrokerLoad
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import area_chart, rate_gauge
from ktui.tui.draw.cells import Piece, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import RowColumn, content, table_lines
from ktui.tui.run_view.rows import RunRows, ToMove
from ktui.tui.widgets.frame import Panel
from ktui.tui.widgets.lines import Lines
from ktui.tui.widgets.services import Services, services

CORDON_SIGN = "⊘"
_TIGHT, _FULL = 0.80, 0.90
"""Used shares of a disk from which it is shown as filling up, and as almost full."""
_LEFT = 14  # cells for what is left to move; longer figures stand there without words
_LEAST_SLOTS = round(60 / SLOT_S)


class Past(msgspec.Struct, frozen=True):
    """The flows of all brokers over the time that was seen, on one scale."""

    flows: Flows = Flows()
    now_s: float = 0.0
    seen: int = _LEAST_SLOTS  # slots since the first flow
    top: float = 0.0

    @property
    def slots(self) -> int:
        """The slots that graphs of a few cells show: whole minutes, so that they seldom shift."""
        return -(-self.seen // _LEAST_SLOTS) * _LEAST_SLOTS

    @property
    def minutes(self) -> int:
        return round(self.slots * SLOT_S / 60)

    def slots_in(self, broker: int, count: int = 0) -> list[float | None]:
        """Return what the broker received in each of the last slots, or in those that were seen."""
        return self._slots(broker, lambda flow: flow.in_s, count)

    def slots_out(self, broker: int, count: int = 0) -> list[float | None]:
        return self._slots(broker, lambda flow: flow.out_s, count)

    def throttles(self, broker: int, count: int = 0) -> list[float | None]:
        return self._slots(broker, lambda flow: flow.throttle, count)

    def _slots(
        self, broker: int, side: Callable[[BrokerFlow], float | None], count: int
    ) -> list[float | None]:
        def figure(brokers: Mapping[int, BrokerFlow]) -> float | None:
            return None if broker not in brokers else side(brokers[broker])

        return flow_slots(self.flows, self.now_s, figure, count or self.slots)


def past_of(flows: Flows, now_s: float) -> Past:
    """Return the past of the brokers, of a minute at least."""
    every = [flow for slot in flows.history for flow in slot.brokers.values()]
    top = max((rate for f in every for rate in (f.in_s, f.out_s, f.throttle) if rate), default=0.0)
    return Past(flows, now_s, max(_LEAST_SLOTS, seen_slots(flows, now_s)), top)


class BrokerView(msgspec.Struct, frozen=True):
    """Everything known about one broker at one moment."""

    id: int
    broker: Broker | None
    load: BrokerLoad
    log_dirs: tuple[LogDir, ...] = ()
    config: BrokerConfig | None = None
    leaders: int | None = None
    replicas: int | None = None
    failures: tuple[Failure, ...] = ()
    proven_empty: datetime | None = None
    """When it was proven to hold nothing; None where it was not, or something has come since."""
    to_move: ToMove = ToMove()
    past: Past = Past()
    down_s: float | None = None  # since when it is down; None while alive, or where not seen

    @property
    def alive(self) -> bool:
        return self.broker is not None and self.broker.alive

    @property
    def disk(self) -> tuple[int, int] | None:
        used = [disk_usage(log_dir) for log_dir in self.log_dirs]
        known = [each for each in used if each is not None]
        return (sum(u for u, _ in known), sum(t for _, t in known)) if known else None

    @property
    def cordoned(self) -> str:
        cordoned = sum(log_dir.cordoned for log_dir in self.log_dirs)
        if all_cordoned(self.log_dirs):
            return "all"
        return f"{cordoned} of {len(self.log_dirs)}" if cordoned else ""


def views_now(app: Services) -> dict[int, BrokerView]:
    """Collect what is known about each broker that is registered or named by a replica list."""
    last, loads = app.progress.last, app.broker_loads
    if last is None:
        return {}
    attached, status = app.attached, app.cluster_status()
    rows = None if attached is None else attached.rows
    past = past_of(app.progress.flows, last.monotonic_s)
    since = {} if status is None else status.down_since_s
    empty = app.broker_controller.proven_empty
    views = {}
    for broker in sorted(last.brokers.keys() | loads.keys()):
        load = loads.get(broker, BrokerLoad(broker))
        view = _view(broker, last, load, empty.get(broker))
        at_s = since.get(broker)
        views[broker] = msgspec.structs.replace(
            view,
            to_move=_to_move(load, rows),
            past=past,
            down_s=None if at_s is None or view.alive else last.monotonic_s - at_s,
        )
    return views


def _to_move(load: BrokerLoad, rows: RunRows | None) -> ToMove:
    """Return what the run moves; without one, or once it has ended, what anybody moves now."""
    if rows is None or (rows.run.ended and load.removing + load.adding):
        return ToMove(load.removing, load.removing, load.adding, load.adding)
    return rows.to_move(load.broker)


def _view(
    broker: int, observation: Observation, load: BrokerLoad, proven: datetime | None
) -> BrokerView:
    census = observation.census
    known = observation.brokers.get(broker)
    counted = None if census is None else census.replicas.get(broker, 0)
    still = counted == 0 and not load.adding and broker in observation.online
    return BrokerView(
        id=broker,
        broker=known if known is not None and known.host else None,
        load=load,
        log_dirs=observation.log_dirs.get(broker, ()),
        config=observation.broker_configs.get(broker),
        leaders=None if census is None else census.leaders.get(broker, 0),
        replicas=counted,
        failures=tuple(each for each in observation.failures if each.broker == broker),
        proven_empty=proven if still else None,
    )


def alive_piece(view: BrokerView) -> Piece:
    """Return whether a broker is alive, and empty; the panel explains why it is down."""
    if view.alive:
        return Piece(
            "empty" if view.proven_empty else "alive", "in-sync", bold=bool(view.proven_empty)
        )
    return Piece(f"DOWN{down_for(view)}", "stalled", bold=True)


def down_for(view: BrokerView) -> str:
    """Return for how long a broker is known to be down, after a space."""
    return "" if view.down_s is None else f" {figures.as_age(view.down_s)}"


def rate_in(view: BrokerView, cells: int) -> list[Piece]:
    """Draw what a broker receives against its throttle, if it has one."""
    flow, config = view.load.flow, view.config
    limit = None if config is None else config.follower_throttle_rate
    pieces = rate_gauge(flow.in_s, limit, cells=cells, broken=flow.breaks_throttle)
    return pieces if flow.in_s else [*pieces[:-1], pieces[-1]._replace(role="dim")]


def rate_out(view: BrokerView) -> list[Piece]:
    """Return what is copied from a broker."""
    rate = view.load.bytes_out_s
    return [Piece(figures.as_copying(rate), "" if rate else "dim")]


def graph(
    slots: Callable[[BrokerView], list[float | None]], cells: int
) -> Callable[[BrokerView], list[Piece]]:
    """Return how to draw rates over time, on one scale for all brokers."""

    def cell(view: BrokerView) -> list[Piece]:
        drawn = area_chart(slots(view), cells, 1, view.past.top)[0]
        return [Piece(drawn, "moving" if drawn.strip(" ·") else "dim")]

    return cell


def left_to_move(view: BrokerView, *, brief: bool = False) -> list[Piece]:
    """Return how many replicas are yet to leave a broker, and to come to it: `6 of 21 to go`."""
    off, off_left, onto, onto_left = view.to_move
    pieces = []
    if off_left:
        whole = f" of {off:,}" if off > off_left else ""
        pieces.append(Piece(f"{off_left:,}{whole}{'' if brief else ' to go'}", "retiring"))
    elif off:
        pieces.append(Piece("gone" if brief else f"all {off:,} gone", "in-sync"))
    if onto_left:
        come = "" if brief or off_left else " to come"
        pieces.append(Piece(f"{' ' if pieces else ''}+{onto_left:,}{come}", "moving"))
    elif onto and not pieces:
        pieces.append(Piece("came" if brief else f"all {onto:,} came", "in-sync"))
    if not brief and pieces_width(pieces) > _LEFT:
        return left_to_move(view, brief=True)
    return pieces or [Piece(figures.UNKNOWN, "dim")]


def count(
    value: Callable[[BrokerView], int | None], role: str = ""
) -> Callable[[BrokerView], list[Piece]]:
    """Return how to draw a count that may be unknown, in a role where it is above zero."""

    def cell(view: BrokerView) -> list[Piece]:
        known = value(view)
        text = figures.UNKNOWN if known is None else f"{known:,}"
        return [Piece(text, role if known else "dim")]

    return cell


def _lag(view: BrokerView) -> list[Piece]:
    if view.load.lag_messages is not None:
        return [Piece(figures.as_messages(view.load.lag_messages))]
    return [Piece(figures.as_bytes(view.load.lag_bytes), "" if view.load.lag_bytes else "dim")]


def disk(cells: int) -> Callable[[BrokerView], list[Piece]]:
    """Return how to draw the disk of a broker, with a bar of so many cells."""
    return lambda view: _disk_cell(view, cells)


def _disk_cell(view: BrokerView, cells: int) -> list[Piece]:
    signs = [
        Piece("!" if any(each.error for each in view.log_dirs) else "", "stalled", bold=True),
        Piece(CORDON_SIGN if view.cordoned else "", "falling-behind", bold=True),
    ]
    signs.append(Piece(" " * (2 - pieces_width(signs))))
    if view.disk is None:
        return [*signs, Piece(f"{figures.UNKNOWN:>{cells + 5}}", "dim")]
    return [*signs, *disk_bar(*view.disk, cells)]


def disk_usage(log_dir: LogDir) -> tuple[int, int] | None:
    """Return the used and total bytes of a log dir's volume; None if they are not reported."""
    if not log_dir.total_bytes or log_dir.usable_bytes is None:
        return None
    return max(0, log_dir.total_bytes - log_dir.usable_bytes), log_dir.total_bytes


def disk_bar(used: int, total: int, width: int) -> list[Piece]:
    """Draw how full a disk is; only disks that fill up are coloured, so that others stay quiet."""
    share = min(1.0, used / total)
    halves = round(share * width * 2)
    bar = "━" * (halves // 2) + "╸" * (halves % 2)
    role = "stalled" if share >= _FULL else "falling-behind" if share >= _TIGHT else "header"
    percent = Piece(f"{figures.as_share(share):>5}", "" if role == "header" else role)
    return [Piece(bar, role), Piece("─" * (width - len(bar)), "rule"), percent]


def throttle(config: BrokerConfig | None) -> str:
    """Return the replication throttle as text: inbound (follower side), outbound (leader side)."""
    if config is None:
        return figures.UNKNOWN
    rates = (config.follower_throttle_rate, config.leader_throttle_rate)
    known = [
        f"{way} {figures.as_rate(rate)}"
        for way, rate in zip(("in", "out"), rates, strict=True)
        if rate is not None
    ]
    return " ".join(known) or "none"


def _rack(view: BrokerView) -> list[Piece]:
    rack = None if view.broker is None else view.broker.rack
    return [Piece(rack or figures.UNKNOWN, "" if rack else "dim")]


def address(view: BrokerView) -> str:
    """Return host:port, or a note that the broker is not registered."""
    if view.broker is None:
        return "not registered"
    return f"{view.broker.host}:{view.broker.port}"


def _column(
    heading: str, width: int, cell: Callable[[BrokerView], list[Piece]], rank: int = 0
) -> RowColumn:
    return Column(heading=heading, width=width, cell=cell, right=True, rank=rank)


_RATE = 12  # cells of the longest figure of a rate with its throttle
_DISK, _SHORT_BAR = 5, 4


@cache
def broker_columns(bar: int, cells: int, minutes: int) -> Sequence[RowColumn]:
    """Return the columns of the screen, with a bar of `bar` cells and graphs of `cells`."""
    last = f"last {minutes} min"
    into = f"in, {last}" if cells > len(last) + 4 else last
    return (
        _column("broker", 6, lambda view: [Piece(str(view.id), bold=True)]),
        Column(heading="state", width=9, cell=lambda view: [alive_piece(view)]),
        Column(
            heading="in, of its throttle" if bar > _SHORT_BAR else "in, of throttle",
            width=bar + 2 + _RATE,
            cell=lambda view: rate_in(view, bar),
        ),
        Column(
            heading=into, width=max(cells, len(into)), rank=4,
            cell=graph(lambda view: view.past.slots_in(view.id), cells),
        ),
        _column("out", 8, rate_out, rank=2),
        Column(
            heading=f"out, {last}", width=max(cells, len(last) + 5), rank=8,
            cell=graph(lambda view: view.past.slots_out(view.id), cells),
        ),
        _column("replicas", 8, count(lambda view: view.replicas), rank=3),
        _column("left to move", _LEFT, left_to_move),
        _column("leader of", 9, count(lambda view: view.leaders), rank=5),
        _column("behind by", 9, _lag, rank=6),
        _column("adding", 6, count(lambda view: view.load.adding, "moving"), rank=9),
        _column("retiring", 8, count(lambda view: view.load.removing, "retiring"), rank=9),
        Column(
            heading="throttle out", width=12, rank=9,
            has=lambda view: view.config is not None and bool(view.config.leader_throttle_rate),
            cell=lambda view: [
                Piece(figures.as_rate(view.config and view.config.leader_throttle_rate))
            ],
        ),
        Column(
            heading="cordoned", width=8, rank=7, has=lambda view: bool(view.cordoned),
            cell=lambda v: [Piece(v.cordoned and f"{CORDON_SIGN} {v.cordoned}", "falling-behind")],
        ),
        Column(
            heading="rack", width=9, cell=_rack, rank=10,
            has=lambda view: view.broker is not None and view.broker.rack is not None,
        ),
        _column("disk", 7 + _DISK, disk(_DISK)),
    )  # fmt: skip


_INDENT = Piece("  ")
_ROOMY = 78
"""The cells from which on figures have their words beside them."""


@cache
def _columns(minutes: int, *, roomy: bool) -> tuple[RowColumn, ...]:
    bar, cells = (8, 12) if roomy else (4, 7)

    def into(view: BrokerView) -> list[Piece]:
        return rate_in(view, bar) if view.alive else [alive_piece(view)]

    def left(view: BrokerView) -> list[Piece]:
        return left_to_move(view, brief=not roomy)

    def used(view: BrokerView) -> list[Piece]:
        share = None if view.disk is None else view.disk[0] / view.disk[1]
        return [Piece(figures.as_share(share), "" if share else "dim")]

    past = f"last {minutes} min" if roomy else f"{minutes} min"
    wide = disk(5) if roomy else used
    return (
        Column(heading="", width=2, right=True, cell=lambda v: [Piece(str(v.id), bold=True)]),
        Column(heading="in, of throttle", width=bar + 13, cell=into),
        Column(
            heading=past, width=cells, cell=graph(lambda v: v.past.slots_in(v.id), cells), rank=3
        ),
        Column(heading="out", width=8, right=True, cell=rate_out, rank=2),
        Column(
            heading="left to move" if roomy else "to move",
            width=14 if roomy else 8,
            right=True,
            cell=left,
        ),
        Column(
            heading="replicas", width=8, right=True, cell=count(lambda v: v.replicas), rank=4,
            has=lambda v: roomy and v.replicas is not None,
        ),
        Column(
            heading="leader of", width=9, right=True, cell=count(lambda v: v.leaders), rank=5,
            has=lambda v: roomy and v.leaders is not None,
        ),
        Column(heading="disk", width=12 if roomy else 4, right=True, cell=wide, rank=1),
    )  # fmt: skip


def broker_lines(views: Collection[BrokerView], width: int, height: int) -> list[list[Piece]]:
    """Draw headings, and the brokers of which most can be said where not all have a line."""
    room = height - 1
    shown = sorted(views, key=_least_to_say)[: room if len(views) <= room else room - 1]
    ordered = sorted(shown, key=lambda view: view.id)
    minutes = next((view.past.minutes for view in ordered), 1)

    wanted = [
        each for each in _columns(minutes, roomy=width >= _ROOMY) if any(map(each.has, views))
    ]
    blocks = {column: table_lines([column], ordered) for column in wanted}

    def lines(columns: Collection[RowColumn]) -> Iterator[list[Piece]]:
        for parts in zip(*(blocks[column] for column in columns), strict=True):
            yield [_INDENT, *(piece for part in parts for piece in (*part, _INDENT))][:-1]

    def fit(columns: Collection[RowColumn]) -> bool:
        return pieces_width(next(lines(columns))) <= width

    drawn = [cut_pieces(line, width) for line in lines(leave_out(wanted, fit))]
    left = len(views) - len(shown)
    return [*drawn, [Piece(f"  … and {left:,} more (b)", "dim")]] if left else drawn


def _least_to_say(view: BrokerView) -> tuple[bool, bool, float, float, int]:
    load = view.load
    rates = -(load.bytes_in_s or 0.0), -(load.bytes_out_s or 0.0)
    return view.alive, not load.adding, *rates, view.id


class BrokersPanel(Panel, can_focus=True):
    """The brokers with what flows into and out of each."""

    DIGIT, TITLE = 2, "brokers"

    def body(self) -> ComposeResult:
        yield Lines()

    @on(Resize)
    def draw(self) -> None:
        app, width = services(self), self.size.width
        views = views_now(app)
        lines = broker_lines(views.values(), width, self.size.height - 1) if views else []
        stale = app.outage is not None
        drawn = [content(faded(line) if stale else line) for line in lines]
        title = [Piece(self.TITLE, bold=True)]
        status = None if app.attached is None else app.cluster_status()
        if status is not None and status.others:
            title.append(Piece(" · to move: this run; in, out: all moves", "dim"))
        self.draw_rule(title)
        self.query_one(Lines).show(drawn)
