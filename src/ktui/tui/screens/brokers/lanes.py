"""The broker under the cursor over time: its flows, and the partitions that move there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from textual.geometry import Size

from ktui.cluster.partition import TopicPartition
from ktui.progress.flows import SLOT_S
from ktui.progress.summary import MOST_MOVES
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import LIMIT, chart_top, limited_chart
from ktui.tui.draw.cells import (
    Piece,
    Window,
    cell_seconds,
    cut_pieces,
    partition_text,
    pieces_width,
)
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.brokers.row import BrokerView
from ktui.tui.screens.watch.columns import LEFT, RATE, REPLICAS, STATE, TIMELINE, Column
from ktui.tui.screens.watch.rule import time_axis
from ktui.tui.screens.watch.state import reason
from ktui.tui.screens.watch.words import RowContext

_LEAST_CHART, _MOST_CHART, _MOST_LANE = 2, 10, 3
_HERE = 7  # cells of the word for what a partition does here


def moves_here(
    view: BrokerView, timelines: Mapping[TopicPartition, Timeline], rows: RunRows | None
) -> list[Timeline]:
    """Return the partitions that come, leave or are copied from here, as far as there is room.

    Those that a run is to take off the broker later in their present move are among them.
    """
    flight = {} if rows is None else rows.run.tracks_in_flight
    leave = (tp for tp, t in flight.items() if view.id in t.replicas and view.id not in t.target)
    names = {*itertools.islice(itertools.chain(view.load.moves, leave), MOST_MOVES)}
    moves = (timelines[tp] for tp in names if tp in timelines)
    return sorted(moves, key=lambda each: (each.phase is not Phase.STALLED, each.tp))


class _Sides(NamedTuple):
    """The cells before the timelines, and the columns after them with the cells that they need."""

    before: int
    columns: Sequence[tuple[Column, int]]

    @property
    def after(self) -> int:
        return sum(2 + cells for _, cells in self.columns)


_SIDES = (
    (150, _Sides(30, ((STATE, 13), (RATE, 8), (LEFT, 7), (REPLICAS, 14)))),
    (100, _Sides(30, ((STATE, 13), (RATE, 8), (LEFT, 7)))),
    (0, _Sides(27, ((STATE, 13),))),
)


def broker_lanes(
    views: Mapping[int, BrokerView],
    chosen: int,
    moves: Sequence[Timeline],
    context: RowContext,
    room: Size,
) -> Iterator[list[Piece]]:
    """Draw on one axis what a broker received and sent, and its moves; nothing if it did not.

    The charts grow with what the moves leave of the room. Then come the other brokers.
    """
    view, sides = views[chosen], next(sides for least, sides in _SIDES if room.width >= least)
    cells = room.width - sides.before - sides.after
    window = Window(context.now_s, cell_seconds(view.past.seen * SLOT_S, cells))
    charts = list(_charts(view, window, cells))
    if not charts and not moves:
        return
    most = room.height - 1 - _LEAST_CHART * len(charts)
    shown = moves if len(moves) <= most else moves[: max(2, most - 1)]
    height = (room.height - 1 - len(shown)) // max(1, len(charts))
    height = max(_LEAST_CHART, min(_MOST_CHART, height))
    headings = (
        f"  {column.heading:{'>' if column.right else '<'}{n}}" for column, n in sides.columns
    )
    yield [
        Piece(" " * sides.before),
        Piece(time_axis(window, cells, context.now_at), "dim"),
        Piece("".join(headings) if shown else "", "header"),
    ]
    for chart in charts:
        yield from chart.lines(sides.before, cells, height)
    for timeline in shown:
        yield cut_pieces(_move(chosen, timeline, context, sides, cells, window.cell_s), room.width)
    if len(shown) < len(moves):
        yield [Piece("and more: enter lists them", "dim")]
    left = room.height - 2 - len(moves) - height * len(charts)
    yield from _others(views, chosen, window, sides.before, Size(cells, left))


def _others(
    views: Mapping[int, BrokerView], chosen: int, window: Window, before: int, room: Size
) -> Iterator[list[Piece]]:
    """Draw the flows of the other brokers, where there is a line for each."""
    others = [view for broker, view in views.items() if broker != chosen]
    charts = [chart for view in others for chart in _charts(view, window, room.width, many=True)]
    if not charts or len(charts) > room.height:
        return
    height = min(_MOST_LANE, room.height // len(charts))
    yield [Piece("the other brokers", "header")]
    for chart in charts:
        yield from chart.lines(before, room.width, height)


class _Chart(NamedTuple):
    name: str
    now: float | None
    values: Sequence[float | None]
    limits: Sequence[float | None]
    limit: float | None

    def lines(self, before: int, cells: int, height: int) -> Iterator[list[Piece]]:
        limits = self.limits if height > 1 else ()  # in one line it would hide the area
        top = chart_top(self.values, limits, height)
        rows = limited_chart(self.values, limits, cells, height, top)
        words = [[Piece(f"{self.name} ", "dim"), Piece(figures.as_copying(self.now), bold=True)]]
        if self.limit is not None and height > 1:
            words.append(
                [Piece(f"{LIMIT} throttle {figures.as_rate(self.limit)}", "falling-behind")]
            )
        scale = {0: figures.as_rate(top), height - 1: "0"} if height > 1 else {}
        for number, row in enumerate(rows):
            label = words[number] if number < len(words) else []
            room = before - pieces_width(label) - 2
            yield [*label, Piece(f"{scale.get(number, ''):>{room}} ┤", "dim"), *row]


def _charts(
    view: BrokerView, window: Window, cells: int, *, many: bool = False
) -> Iterator[_Chart]:
    past, flow = view.past, view.load.flow
    count = round(window.cell_s * cells / SLOT_S) + 1
    whose = f"broker {view.id}" if many else "copied"

    def in_cells(slots: Callable[[int, int], list[float | None]]) -> list[float | None]:
        return list(_in_cells(slots(view.id, count), window, cells))

    received, sent = in_cells(past.slots_in), in_cells(past.slots_out)
    if any(received) or flow.in_s:
        limits = in_cells(past.throttles)
        yield _Chart(f"{whose} in", flow.in_s, received, limits, flow.throttle)
    if any(sent) or flow.out_s:
        yield _Chart(f"{whose} out", flow.out_s, sent, (), None)


def _in_cells(slots: Sequence[float | None], window: Window, cells: int) -> Iterator[float | None]:
    """Yield the highest figure in each cell of a window; slots end with that of now."""
    first, last = window.first(cells), int(window.now_s // SLOT_S)
    for cell in range(first, first + cells):
        begin = int(cell * window.cell_s // SLOT_S)
        end = max(begin, -int(-(cell + 1) * window.cell_s // SLOT_S) - 1)
        known = [slots[at] for at in range(begin - last - 1, end - last) if -len(slots) <= at < 0]
        yield max((value for value in known if value is not None), default=None)


def _move(
    broker: int,
    timeline: Timeline,
    context: RowContext,
    sides: _Sides,
    cells: int,
    cell_s: float,
) -> list[Piece]:
    here, role = _here(broker, timeline, context)
    name = partition_text(timeline.tp, sides.before - _HERE - 2)
    drawn = TIMELINE.cell(timeline, cells, context, cell_s)
    pieces = [
        Piece(f"{here:<{_HERE}} ", role), Piece(f"{name:<{sides.before - _HERE - 1}}"),
        *drawn, Piece(" " * (cells - pieces_width(drawn))),
    ]  # fmt: skip
    why = reason(timeline, context)
    for column, width in sides.columns:
        cell = column.cell(timeline, width, context, cell_s)
        cell = cut_pieces(cell, width) if pieces_width(cell) > width else cell
        blank = Piece(" " * (width - pieces_width(cell)))
        pieces += [Piece("  "), *((blank, *cell) if column.right else (*cell, blank))]
        if why is not None and len(sides.columns) > 1:
            return [*pieces, Piece("  "), why]
    return pieces


def _here(broker: int, timeline: Timeline, context: RowContext) -> tuple[str, str]:
    """Return what a partition does at a broker, and the role of that word."""
    state = timeline.state
    if broker in state.adding:
        return "comes", "moving"
    if broker in state.removing or broker in context.leaving(timeline):
        return "leaves", "retiring"
    return "sends", "leader"
