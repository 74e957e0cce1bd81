"""One broker's row on the Brokers screen, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, all_cordoned
from ktui.cluster.errors import Failure
from ktui.cluster.observation import Observation
from ktui.columns import Column, leave_out
from ktui.progress.summary import BrokerLoad
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, pieces_width
from ktui.tui.draw.paint import RowColumn
from ktui.tui.widgets.frame import CELL_PADDING

CORDON_SIGN = "⊘"
_BAR = 5
_TIGHT, _FULL = 0.80, 0.90
"""Used shares of a disk from which it is shown as filling up, and as almost full."""


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


def broker_views(
    observation: Observation,
    loads: Mapping[int, BrokerLoad],
    proven_empty: Mapping[int, datetime] = MappingProxyType({}),
) -> dict[int, BrokerView]:
    """Collect what is known about each broker that is registered or named by a replica list."""
    ids = sorted(observation.brokers.keys() | loads.keys())
    return {
        broker: _view(
            broker, observation, loads.get(broker, BrokerLoad(broker)), proven_empty.get(broker)
        )
        for broker in ids
    }


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
    if view.proven_empty is not None:
        return Piece("empty", "in-sync", bold=True)
    if view.broker is not None and view.broker.alive:
        return Piece("alive", "in-sync")
    return Piece("down", "stalled", bold=True)


def _rate(value: Callable[[BrokerView], float | None]) -> Callable[[BrokerView], list[Piece]]:
    def cell(view: BrokerView) -> list[Piece]:
        rate = value(view)
        return [Piece(figures.as_copying(rate), "" if rate else "dim")]

    return cell


def _count(
    value: Callable[[BrokerView], int | None], role: str = ""
) -> Callable[[BrokerView], list[Piece]]:
    def cell(view: BrokerView) -> list[Piece]:
        count = value(view)
        text = figures.UNKNOWN if count is None else f"{count:,}"
        return [Piece(text, role if count else "dim")]

    return cell


def _lag(view: BrokerView) -> list[Piece]:
    if view.load.lag_messages is not None:
        return [Piece(figures.as_messages(view.load.lag_messages))]
    return [Piece(figures.as_bytes(view.load.lag_bytes), "" if view.load.lag_bytes else "dim")]


def _disk_cell(view: BrokerView) -> list[Piece]:
    signs = [
        Piece("!" if any(each.error for each in view.log_dirs) else "", "stalled", bold=True),
        Piece(CORDON_SIGN if view.cordoned else "", "falling-behind", bold=True),
    ]
    signs.append(Piece(" " * (2 - pieces_width(signs))))
    if view.disk is None:
        return [*signs, Piece(f"{figures.UNKNOWN:>{_BAR + 5}}", "dim")]
    return [*signs, *disk_bar(*view.disk, _BAR)]


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
    if not _throttled(config):
        return "none"
    rates = (config.follower_throttle_rate, config.leader_throttle_rate)
    return " ".join(
        f"{way} {figures.as_rate(rate)}"
        for way, rate in zip(("in", "out"), rates, strict=True)
        if rate is not None
    )


def _throttled(config: BrokerConfig | None) -> bool:
    return config is not None and not (
        config.follower_throttle_rate is None and config.leader_throttle_rate is None
    )


def _rack(view: BrokerView) -> list[Piece]:
    rack = None if view.broker is None else view.broker.rack
    return [Piece(rack or figures.UNKNOWN, "" if rack else "dim")]


def address(view: BrokerView) -> str:
    """Return host:port, or a note that the broker is not registered."""
    if view.broker is None:
        return "not registered"
    return f"{view.broker.host}:{view.broker.port}"


def _column(heading: str, width: int, cell: Callable[[BrokerView], list[Piece]]) -> RowColumn:
    return Column(heading=heading, width=width, cell=cell, right=True)


# The ranks: the address and the rack are in the panel, too, and never change; a throttle is what
# one looks for on this screen, and goes last of those that may go.
COLUMNS = (
    _column("broker", 6, lambda view: [Piece(str(view.id), bold=True)]),
    Column(heading="state", width=6, cell=lambda view: [alive_piece(view)]),
    Column(
        heading="rack", width=12, cell=_rack, rank=4,
        has=lambda view: view.broker is not None and view.broker.rack is not None,
    ),
    Column(heading="address", width=30, cell=lambda view: [Piece(address(view), "dim")], rank=5),
    _column("in", 8, _rate(lambda view: view.load.bytes_in_s)),
    _column("out", 8, _rate(lambda view: view.load.bytes_out_s)),
    _column("adding", 6, _count(lambda view: view.load.adding, "moving")),
    _column("retiring", 8, _count(lambda view: view.load.removing, "retiring")),
    _column("lag", 9, _lag),
    Column(
        heading="leaders", width=8, cell=_count(lambda view: view.leaders), right=True, rank=2
    ),
    Column(
        heading="replicas", width=8, cell=_count(lambda view: view.replicas), right=True, rank=3
    ),
    Column(
        heading="throttle", width=23, rank=1,
        cell=lambda view: [Piece(throttle(view.config), "" if _throttled(view.config) else "dim")],
        has=lambda view: _throttled(view.config),
    ),
    Column(
        heading="cordoned", width=8, rank=4, has=lambda view: bool(view.cordoned),
        cell=lambda v: [Piece(v.cordoned and f"{CORDON_SIGN} {v.cordoned}", "falling-behind")],
    ),
    _column("disk", 12, _disk_cell),
)  # fmt: skip


def columns_that_fit(views: Iterable[BrokerView], width: int) -> tuple[RowColumn, ...]:
    """Return the columns for a screen of so many cells: those with something to show that fit."""
    brokers = list(views)
    columns = [column for column in COLUMNS if not brokers or any(map(column.has, brokers))]
    return tuple(
        leave_out(columns, lambda shown: sum(each.width + CELL_PADDING for each in shown) <= width)
    )
