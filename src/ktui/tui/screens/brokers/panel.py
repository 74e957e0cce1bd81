"""The panel of one broker: facts without a column, log dirs and failed reads, as lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from textual.content import Content

from ktui.cluster.broker import LogDir
from ktui.execution.broker.status import NOTHING
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content, panel_title
from ktui.tui.screens.brokers.manage import way_out
from ktui.tui.screens.brokers.row import (
    CORDON_SIGN,
    BrokerView,
    address,
    alive_piece,
    disk_bar,
    disk_usage,
    throttle,
)
from ktui.tui.widgets.lines import facts

_BAR = 20
_COLUMNS = {"leads": "leaders", "holds": "replicas"}
"""The columns that have another name than the fact that they show."""


def broker_title(view: BrokerView) -> Content:
    """Return the title of the panel: which broker it is about, and whether it is alive."""
    return panel_title(f"broker {view.id}", None, content([alive_piece(view)]))


def broker_panel(
    view: BrokerView, width: int, shown: Collection[str], held: Sequence[tuple[str, Content]] = ()
) -> list[Content]:
    """Lay out in `width` cells what is known about a broker beyond the columns that are shown.

    Args:
        view: the broker.
        width: the cells of a line.
        shown: the headings of the columns.
        held: the facts of the run's objective about it.
    """
    rack = None if view.broker is None else view.broker.rack
    pairs = [
        ("address", Content(address(view))),
        ("rack", Content(rack or "none")),
        ("throttle", Content(throttle(view.config))),
        ("to catch up", Content(_lag(view))),
        ("leads", Content(_partitions(view.leaders))),
        ("holds", Content(_replicas(view.replicas))),
        ("cordoned", Content(_cordoned(view))),
    ]
    pairs = [pair for pair in pairs if _COLUMNS.get(pair[0], pair[0]) not in shown]
    why = [Content.styled(words, "$dim")] if (words := _broker_note(view)) else []
    dirs = sorted(view.log_dirs, key=_trouble_first)
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


def _partitions(count: int | None) -> str:
    return "being counted" if count is None else figures.as_count(count, "partition")


def _replicas(count: int | None) -> str:
    return "being counted" if count is None else figures.as_count(count, "replica")


def _trouble_first(log_dir: LogDir) -> tuple[bool, bool, str]:
    return (log_dir.error is None, not log_dir.cordoned, log_dir.path)


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
