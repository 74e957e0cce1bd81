"""The lanes of a partition's replicas, the curve of its lag, and the axis of time below."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import floor
from operator import itemgetter

import msgspec
from textual.content import Content

from ktui.cluster.broker import Broker
from ktui.columns import Column
from ktui.progress.row import merge_marks
from ktui.progress.timeline import Lane, Role, Slots, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, SignAt, cut, mark_cell, pieces_width, put_sign
from ktui.tui.draw.paint import RowColumn, content, table_lines


class TimeAxis(msgspec.Struct, frozen=True):
    """An axis of cells, each a whole number of slots, so that a lane grows and does not crawl."""

    start_s: float
    cell_s: float
    cells: int
    slots_per_cell: int

    @classmethod
    def over(cls, histories: Sequence[Slots], width: int) -> TimeAxis | None:
        longest = max(histories, key=lambda slots: len(slots.marks), default=None)
        if longest is None or not longest.marks or width <= 0:
            return None
        count = len(longest.marks)
        each = -(-count // width)
        return cls(
            start_s=longest.end_s - count * longest.slot_s,
            cell_s=each * longest.slot_s,
            cells=-(-count // each),
            slots_per_cell=each,
        )

    def marks(self, slots: Slots) -> bytes:
        each = self.slots_per_cell
        groups = (slots.marks[at : at + each] for at in range(0, len(slots.marks), each))
        return bytes(_most_significant(group) for group in groups)


def _most_significant(marks: bytes) -> int:
    mark = marks[0]
    for later in marks[1:]:
        mark = merge_marks(mark, later)
    return mark


_BLOCKS = " ▁▂▃▄▅▆▇█"
_STEPS = 8
_SMALL = 10
_NICE = (10, 12, 16, 20, 30, 40, 50, 60, 80, 100, 120)
SCALE_WIDTH = 12

LagPoints = Sequence[tuple[float, int]]


class LagCurve(msgspec.Struct, frozen=True):
    """Heights in eighths of a row, one per cell, and the messages at full height."""

    levels: tuple[int, ...]
    top: int


def draw(points: LagPoints, axis: TimeAxis, height: int) -> LagCurve:
    """Compute the worst lag in each cell of time, interpolating linearly between two readings."""
    values = [_worst(points, axis, cell) for cell in range(axis.cells)]
    top = nice_ceiling(max((value for value in values if value is not None), default=0))
    return LagCurve(
        tuple(0 if value is None else _level(value, top, height) for value in values), top
    )


def lag_curve(points: LagPoints, axis: TimeAxis, height: int) -> list[Content]:
    """Draw the curve as lines, each with the scale in its first `SCALE_WIDTH` cells."""
    curve = draw(points, axis, height)
    scale = {0: curve.top, height // 2: curve.top // 2}
    lines = [
        Content.assemble(
            *_scale(scale.get(row)), (_curve_row(curve.levels, height - 1 - row), "$moving dim")
        )
        for row in range(height)
    ]
    return [
        *lines,
        Content.assemble((f"{'0 └':>{SCALE_WIDTH}}", "$dim"), ("─" * axis.cells, "$rule")),
    ]


def _curve_row(levels: Sequence[int], row: int) -> str:
    return "".join(_BLOCKS[min(_STEPS, max(0, level - _STEPS * row))] for level in levels)


def _scale(value: int | None) -> list[tuple[str, str]]:
    if value is None:
        return [(f"{'│':>{SCALE_WIDTH}}", "$rule")]
    return [(f"{figures.as_messages(value):>{SCALE_WIDTH - 2}} ┤", "$dim")]


def nice_ceiling(value: int) -> int:
    """Return a round number that is at least `value`, and whose half is round too."""
    if value <= _SMALL:
        return max(2, value + value % 2)
    power: int = 10 ** (int(math.log10(value)) - 1)
    return next(step * power for step in _NICE if step * power >= value)


def _level(value: int, top: int, height: int) -> int:
    """Return eighths of a row above the axis; a lag above zero is never drawn as zero."""
    return max(value > 0, round(value / top * height * _STEPS))


def _worst(points: LagPoints, axis: TimeAxis, cell: int) -> int | None:
    """Return the highest value within a cell; None before the first and after the last reading."""
    begin = axis.start_s + cell * axis.cell_s
    end = begin + axis.cell_s
    first, after = (bisect.bisect_left(points, at, key=itemgetter(0)) for at in (begin, end))
    if first < after:
        return max(messages for _, messages in points[first:after])
    if first in (0, len(points)):
        return None
    (at, messages), (later, more) = points[first - 1 : first + 1]
    middle = (begin + end) / 2
    return round(messages + (more - messages) * (middle - at) / (later - at))


ROLE_SIGNS = {Role.LEADER: "*", Role.ADDING: "+", Role.RETIRING: "-"}
ROLE_COLOURS = {
    Role.ADDING: "moving",
    Role.IN_SYNC: "in-sync",
    Role.LEADER: "leader",
    Role.OUT_OF_SYNC: "out-of-sync",
    Role.RETIRING: "retiring",
    Role.GONE: "dim",
}

_CATCHING_UP = (Role.ADDING, Role.OUT_OF_SYNC)
_NOT_TO_LEAD = (Role.LEADER, Role.GONE)
_WIDE, _WIDER = 110, 150
"""From the first width a lane's figures fit on its own line; from the second its place, too."""
_GAP = 2


class LaneTable(msgspec.Struct, frozen=True):
    """The lanes as lines, and the position of their time axis for the curve drawn below them."""

    lines: tuple[Content, ...]
    axis: TimeAxis | None
    left: int


def lane_table(
    timeline: Timeline,
    brokers: Mapping[int, Broker],
    width: int,
    now: tuple[str, str],
    sign: SignAt | None = None,
) -> LaneTable:
    """Lay the lanes out in `width` cells, each with `sign`, an event of the whole partition."""
    lanes = list(timeline.lanes.values())
    if not lanes:
        words = Content.styled("Nothing is known of its replicas yet.", "$dim")
        return LaneTable((words,), None, 0)
    lanes = [_without_dead_leader(lane, brokers) for lane in lanes]
    table = table_lines(_columns(lanes, brokers, timeline, width), lanes, role="dim")
    left = pieces_width(table[0]) + _GAP
    histories = [lane.history for lane in lanes if lane.history is not None]
    axis = TimeAxis.over(histories, width - left)
    heading, *rows = (Content.assemble(content(pieces), " " * _GAP) for pieces in table)
    lines = [Content.assemble(heading, (_times(axis, now), "$dim"))]
    for lane, row in zip(lanes, rows, strict=True):
        lines.append(Content.assemble(row, _bar(lane, axis, sign)))
        if width < _WIDE:
            lines.extend(_second_line(lane, pieces_width(table[0][:2]) + _GAP))
    return LaneTable(tuple(lines), axis, left)


def _times(axis: TimeAxis | None, now: tuple[str, str]) -> str:
    begin, end = now
    if axis is None or axis.cells < len(begin) + len(end) + 1:
        return begin if axis is not None else ""
    return f"{begin}{end:>{axis.cells - len(begin)}}"


def _without_dead_leader(lane: Lane, brokers: Mapping[int, Broker]) -> Lane:
    """Show a leader that is down as out of sync: it leads no more."""
    known = brokers.get(lane.broker)
    if lane.role is not Role.LEADER or known is None or known.alive:
        return lane
    return msgspec.structs.replace(lane, role=Role.OUT_OF_SYNC, share=None)


def _columns(
    lanes: Sequence[Lane], brokers: Mapping[int, Broker], timeline: Timeline, width: int
) -> Iterator[RowColumn]:
    yield Column(heading="broker", cell=_broker_cell(lanes, timeline))
    # the least cells of a column, so that a figure's length does not shift what follows
    yield _column("role", 11, lambda lane: lane.role.value)
    known = [broker for lane in lanes if (broker := brokers.get(lane.broker)) is not None]
    # with the figures on the lanes' own lines there is no room for more in the middle
    if any(broker.rack for broker in known) and not _WIDE <= width < _WIDER:
        racks = {broker.id: broker.rack for broker in known}
        yield _place("rack", 12, lambda lane: racks.get(lane.broker) or "-")
    if width >= _WIDER:
        hosts = {broker.id: f"{broker.host}:{broker.port}" for broker in known if broker.host}
        yield _place("host", 32, lambda lane: hosts.get(lane.broker, "unknown"))
    yield _column("copied", 6, _share, right=True)
    if width >= _WIDE:
        for heading, least, text in (("lag", 18, _lag), ("rate", 8, _rate), ("left", 19, _left)):
            yield _column(heading, least, text, right=True, plain=True)


def _column(
    heading: str,
    least: int,
    text: Callable[[Lane], str],
    *,
    right: bool = False,
    plain: bool = False,
) -> RowColumn:
    def cell(lane: Lane) -> list[Piece]:
        return [Piece(text(lane), "" if plain else ROLE_COLOURS[lane.role])]

    return Column(heading=heading, width=least, cell=cell, right=right)


def _place(heading: str, most: int, name: Callable[[Lane], str]) -> RowColumn:
    def cell(lane: Lane) -> list[Piece]:
        return [Piece(cut(name(lane), "", most).rstrip(), "dim")]

    return Column(heading=heading, cell=cell)


def _broker_cell(lanes: Sequence[Lane], timeline: Timeline) -> Callable[[Lane], list[Piece]]:
    preferred = timeline.target[0] if timeline.target else None
    most = max(2, *(len(_sign(lane, preferred)) for lane in lanes))
    digits = max(len(str(lane.broker)) for lane in lanes)

    def cell(lane: Lane) -> list[Piece]:
        after = "!" if lane.role is Role.OUT_OF_SYNC else ""
        text = f"{_sign(lane, preferred):>{most}}{lane.broker:>{digits}}{after}"
        return [Piece(text, ROLE_COLOURS[lane.role], bold=True)]

    return cell


def _sign(lane: Lane, preferred: int | None) -> str:
    to_lead = ">" if lane.broker == preferred and lane.role not in _NOT_TO_LEAD else ""
    return to_lead + ROLE_SIGNS.get(lane.role, "")


def _share(lane: Lane) -> str:
    if lane.share is None or lane.role not in _CATCHING_UP:
        return ""
    return figures.as_share(lane.share, approximate=lane.approximate)


def _lag(lane: Lane) -> str:
    known = []
    if lane.lag_messages is not None:
        known.append(figures.as_messages(lane.lag_messages))
    if lane.lag_bytes is not None:
        known.append(figures.as_bytes(lane.lag_bytes))
    return ", ".join(known)


def _rate(lane: Lane) -> str:
    if lane.rate_bytes_s is not None:
        return figures.as_copying(lane.rate_bytes_s)
    return "" if lane.rate_messages_s is None else figures.as_message_rate(lane.rate_messages_s)


def _left(lane: Lane) -> str:
    return "" if lane.left_s is None else figures.as_duration_range(lane.left_s)


def _second_line(lane: Lane, indent: int) -> list[Content]:
    facts = [("lag", _lag(lane)), ("rate", _rate(lane)), ("left", _left(lane))]
    known = [(label, value) for label, value in facts if value]
    if lane.role not in _CATCHING_UP or not known:
        return []
    parts: list[tuple[str, str] | str] = [" " * indent]
    for label, value in known:
        parts += [(f"{label} ", "$dim"), f"{value}   "]
    return [Content.assemble(*parts)]


def _bar(lane: Lane, axis: TimeAxis | None, sign: SignAt | None) -> Content:
    if axis is None or lane.history is None:
        return Content("")
    cells = list(map(mark_cell, axis.marks(lane.history)))
    if sign is not None:
        put_sign(cells, floor((sign.at_s - axis.start_s) / axis.cell_s), sign.cell)
    return Content.assemble(*((cell.glyph, f"${cell.role}") for cell in cells))
