"""The columns of the partition list: what stands in them, what they sort by, and which fit.

A cell is drawn of a timeline, its width, the context of the row, and the slots of time that
timelines reach back. A figure is one of a timeline and that context. `has` is asked with what the
rows need, and whether a run is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ktui import columns
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import (
    SPANS,
    Piece,
    partition_text,
    replica_pieces,
    timeline_cells,
    timeline_width,
)
from ktui.tui.screens.watch.state import state_cell, urgency
from ktui.tui.screens.watch.words import RowContext

CURSOR_WIDTH = 2  # cells before the first column: the sign of the cursor and that of a mark
_WIDE, _WIDEST = 100, 170
_LEAST_TIMELINE, _BEST_TIMELINE = 8, 60
"""The cells of a timeline that is alone at the end of the row, and those that are enough."""

Column = columns.Column[list[Piece]]


class Extents(msgspec.Struct, frozen=True):
    """What the rows need: the widest name, replica list and state in cells, and figures."""

    name: int = 9
    replicas: int = 8
    state: int = 12
    copying: bool = True


# ------------------------------------------------------------------------------------ cells


def _partition(timeline: Timeline, width: int, *_: object) -> list[Piece]:
    role = "dim" if timeline.phase is Phase.TOPIC_GONE else ""
    return [Piece(partition_text(timeline.tp, width), role)]


def _batch(timeline: Timeline, _width: int, context: RowContext, _span: int) -> list[Piece]:
    batch = _batch_number(timeline, context)
    return [] if batch is None else [Piece(f"{batch:,}")]


def _batch_number(timeline: Timeline, context: RowContext) -> int | None:
    track = None if context.run is None else context.run.track(timeline.tp)
    return None if track is None else track.batch


def _target(timeline: Timeline, _width: int, context: RowContext, _span: int) -> list[Piece]:
    track = context.track(timeline)
    if track is None and not timeline.state.reassigning:
        return []
    target = timeline.target if track is None else track.target
    return [Piece(",".join(map(str, target)), "dim" if timeline.phase.ended else "")]


def _lag(timeline: Timeline, *_: object) -> list[Piece]:
    if not _copies(timeline):
        return []
    if timeline.lag_messages is not None:
        return [Piece(figures.as_messages(timeline.lag_messages))]
    if timeline.lag_bytes is not None:
        return [Piece(f"~{figures.as_bytes(timeline.lag_bytes)}")]
    return [Piece(figures.UNKNOWN, "dim")]


def _to_copy(timeline: Timeline, *_: object) -> list[Piece]:
    known = _copies(timeline) and timeline.lag_bytes is not None
    return [Piece(figures.as_bytes(timeline.lag_bytes))] if known else []


def _rate(timeline: Timeline, *_: object) -> list[Piece]:
    if not _copies(timeline):
        return []
    rate = figures.as_copying(timeline.rate_bytes_s)
    return [Piece(rate, "dim" if rate == figures.UNKNOWN else "")]


def _left(timeline: Timeline, width: int, *_: object) -> list[Piece]:
    left = timeline.left_s
    if not _copies(timeline):
        return []
    if left is None:
        return [Piece(figures.UNKNOWN, "dim")]
    with_range = figures.as_duration_range(left)
    return [Piece(with_range if len(with_range) <= width else figures.as_duration(left.middle))]


def _copies(timeline: Timeline) -> bool:
    return not timeline.phase.ended and bool(timeline.catching_up)


def _history(timeline: Timeline, width: int, context: RowContext, span: int) -> list[Piece]:
    track = context.track(timeline)
    waits = None if track is None else context.waiting(track)
    sign = None if track is None else context.cancel_sign(track)
    return timeline_cells(timeline.recent, width, context.now_s, span, waits=waits, sign=sign)


# ---------------------------------------------------------------------------- the columns


def _copying(extents: Extents, _run: object) -> bool:
    return extents.copying


# The ranks: a narrow terminal first leaves out what other columns say, too (the target that the
# replicas are on their way to, bytes beside the lag, a reason that can stand in place of others),
# then what only tells the past; how long it still takes goes last.
PARTITION = Column(
    heading="partition", cell=_partition, width=9, needs=lambda extents: extents.name, most=22,
    figure=lambda *_: 0.0, steady=True,  # rows of equal figures are ordered by name
)  # fmt: skip
STATE = Column(
    heading="state", cell=lambda t, _w, context, _s: [state_cell(t, context)], width=12,
    needs=lambda extents: extents.state, figure=urgency, steady=True,
)  # fmt: skip
BATCH = Column(
    heading="batch", cell=_batch, right=True, width=5, rank=5, has=lambda _, run: run,
    figure=_batch_number, largest_first=True,
)  # fmt: skip
REPLICAS = Column(
    heading="replicas", cell=lambda t, _w, context, _s: replica_pieces(t.state, context.down),
    width=8, needs=lambda extents: extents.replicas, most=16,
)  # fmt: skip
TARGET = Column(
    heading="target", cell=_target, width=8, needs=lambda extents: extents.replicas, most=16,
    rank=8, has=lambda extents, run: run or extents.copying,
)  # fmt: skip
LAG = Column(
    heading="lag", cell=_lag, right=True, width=9, rank=2, has=_copying,
    figure=lambda timeline, _: timeline.lag_messages, largest_first=True,
)  # fmt: skip
TO_COPY = Column(
    heading="to copy", cell=_to_copy, right=True, width=8, rank=7, has=_copying,
    figure=lambda timeline, _: timeline.lag_bytes, largest_first=True,
)  # fmt: skip
RATE = Column(
    heading="rate", cell=_rate, right=True, width=8, rank=3, has=_copying,
    figure=lambda timeline, _: timeline.rate_bytes_s,
)  # fmt: skip
LEFT = Column(
    heading="left", cell=_left, right=True, width=7, wide=22, rank=1, has=_copying,
    figure=lambda t, _: None if t.left_s is None else t.left_s.middle, largest_first=True,
)  # fmt: skip
TIMELINE = Column(heading="timeline", cell=_history, width=20, rank=4)
REASON = Column(heading="reason", cell=lambda *_: [], width=18, rank=6)
"""Its cell is a sentence, which may take the room of other columns: see row.py."""
COLUMNS = (PARTITION, STATE, BATCH, REPLICAS, TARGET, LAG, TO_COPY, RATE, LEFT, TIMELINE, REASON)
_BEGAN = Column(
    heading="began", cell=lambda *_: [], figure=lambda timeline, _: timeline.began_s,
    largest_first=True, steady=True,
)  # fmt: skip
SORTS = tuple(each.heading for each in (STATE, PARTITION, LAG, RATE, LEFT, _BEGAN))
"""The orders of the cycle; a click on a heading has others, too."""
_BY_HEADING = {each.heading: each for each in (*COLUMNS, _BEGAN)}


# ------------------------------------------------------------------------------ their layout


class ColumnLayout(msgspec.Struct, frozen=True):
    """The columns that fit, in order, with their widths; equal layouts draw the same."""

    width: int
    gap: int
    columns: tuple[tuple[Column, int], ...]
    span: int = SPANS[0]

    def width_of(self, column: Column) -> int:
        return dict(self.columns).get(column, 0)

    def spans(self) -> Iterator[tuple[Column, int, int]]:
        start = CURSOR_WIDTH
        for column, width in self.columns:
            yield column, start, width
            start += width + self.gap

    def at(self, x: int) -> Column | None:
        """Return the column under a cell; the gap after a column belongs to it."""
        found = (c for c, start, width in self.spans() if start <= x < start + width + self.gap)
        return next(found, None)


def layout(
    width: int, extents: Extents, span: int = SPANS[0], *, batches: bool = False
) -> ColumnLayout:
    """Lay out the columns in `width` cells, with a timeline of `span` slots.

    With `batches`, each partition's batch has a column if there is room.
    """
    gap, room = 2 if width >= _WIDE else 1, width - CURSOR_WIDTH

    def widths(shown: Sequence[Column]) -> dict[Column, int]:
        found = {each: _least(each, extents, wide=width >= _WIDEST) for each in shown}
        if TIMELINE in found and all(each.rank < BATCH.rank for each in shown):
            found[TIMELINE] = _LEAST_TIMELINE  # it is alone at the end of the row
        return found

    def used(shown: Sequence[Column]) -> int:
        return sum(widths(shown).values()) + (len(shown) - 1) * gap

    wanted = [each for each in COLUMNS if each.has(extents, batches)]
    shown = columns.leave_out(wanted, lambda some: used(some) <= room)
    fitted = widths(shown)
    _spread(max(0, room - used(shown)), fitted, extents, span)
    return ColumnLayout(width, gap, tuple(fitted.items()), span)


def _least(column: Column, extents: Extents, *, wide: bool) -> int:
    needs = column.width if column.needs is None else column.needs(extents)
    needs = min(needs, column.most) if column.most else needs
    return (wide and column.wide) or max(column.width, needs)


def _spread(spare: int, widths: dict[Column, int], extents: Extents, span: int) -> None:
    """Give spare cells to what is cut: names, replicas; then to the timeline and to reasons."""
    for column, width in widths.items():
        if column.needs is not None and column.most:
            wanted = max(0, min(column.needs(extents) - width, spare))
            widths[column] += wanted
            spare -= wanted
    if TIMELINE not in widths:
        if REASON in widths:
            widths[REASON] += spare
        return
    room = widths[TIMELINE] + spare
    if REASON not in widths:
        widths[TIMELINE] = timeline_width(room, span)
        return
    room += widths[REASON]
    wanted = max(TIMELINE.width, min(_BEST_TIMELINE, room // 2))
    timeline = timeline_width(wanted, span)
    widths[TIMELINE], widths[REASON] = timeline, room - timeline


# ------------------------------------------------------------------------------ their orders


SortKey = tuple[Any, ...]


class Ordering(msgspec.Struct, frozen=True):
    """A column to sort by, by its heading, and whether in reverse of its usual direction."""

    by: str = STATE.heading
    reverse: bool = False

    @property
    def arrow(self) -> str:
        return "▼" if self.descending else "▲"

    @property
    def descending(self) -> bool:
        return _BY_HEADING[self.by].largest_first is not self.reverse

    @property
    def steady(self) -> bool:
        """Whether places change seldom, so that rows may follow the figures without jumping."""
        return _BY_HEADING[self.by].steady

    def next(self) -> Ordering:
        place = SORTS.index(self.by) if self.by in SORTS else -1
        return Ordering(SORTS[(place + 1) % len(SORTS)])

    def reversed(self) -> Ordering:
        return Ordering(self.by, not self.reverse)

    def by_column(self, column: Column) -> Ordering | None:
        """Return the order for a click on a heading, or None; a second click reverses the order."""
        if column.figure is None:
            return None
        return self.reversed() if column.heading == self.by else Ordering(column.heading)

    def key(self, timeline: Timeline, context: RowContext) -> SortKey:
        """Return the sort key of a partition, smallest first; ties are broken by name.

        Unknown figures come last, in either direction.
        """
        name = (timeline.tp.topic, timeline.tp.partition)
        if self.by == PARTITION.heading:
            return (_Backwards(name[0]), -name[1]) if self.reverse else name
        figure = _BY_HEADING[self.by].figure
        value = None if figure is None else figure(timeline, context)
        if value is None:
            return (math.inf, *name)
        return (-value if self.descending else value, *name)


class _Backwards(str):
    """A string that sorts the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)
