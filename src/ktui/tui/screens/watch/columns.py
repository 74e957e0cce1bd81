"""The columns of the partition list: those that fit, and their widths."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from ktui.tui.draw.cells import SPANS, timeline_width

CURSOR_WIDTH = 2
"""Cells before the first column: the sign of the cursor and that of a mark."""
_LEAST_NAME, _LEAST_REPLICAS, _LEAST_STATE = 9, 8, 12
_MODEST_NAME, _MODEST_REPLICAS = 22, 16
"""Names and replicas have so many cells before another column comes in."""
_LEFT_WITH_RANGE = 22
_WIDE, _WIDEST = 100, 170


class Column(enum.StrEnum):
    """A column, by its heading."""

    PARTITION = "partition"
    STATE = "state"
    BATCH = "batch"
    REPLICAS = "replicas"
    LAG = "lag"
    TO_COPY = "to copy"
    RATE = "rate"
    LEFT = "left"
    TIMELINE = "timeline"
    REASON = "reason"

    @property
    def numeric(self) -> bool:
        """Whether the column's figures are right-aligned."""
        return self in _NUMERIC


_NUMERIC = frozenset({Column.BATCH, Column.LAG, Column.TO_COPY, Column.RATE, Column.LEFT})
_FIGURES = frozenset({Column.LAG, Column.TO_COPY, Column.RATE, Column.LEFT})
_WIDTHS = {
    Column.STATE: _LEAST_STATE, Column.BATCH: 5, Column.LAG: 9, Column.TO_COPY: 8, Column.RATE: 8,
    Column.LEFT: 7, Column.TIMELINE: 20, Column.REASON: 18,
}  # fmt: skip
"""The cells of each column; the timeline and the reasons take what is left over, too."""
_LEAST_TIMELINE, _BEST_TIMELINE = 8, 60
"""The cells of a timeline that is alone at the end of the row, and those that are enough."""
_LEAST_NEEDED_FIRST = (
    Column.TO_COPY, Column.REASON, Column.BATCH, Column.TIMELINE, Column.RATE, Column.LAG,
    Column.LEFT,
)  # fmt: skip
"""The columns that a narrow terminal leaves out, in this order. The others always stay."""


class Extents(msgspec.Struct, frozen=True):
    """What the rows need: the widest name, replica list and state in cells, and figures."""

    name: int = _LEAST_NAME
    replicas: int = _LEAST_REPLICAS
    state: int = _LEAST_STATE
    copying: bool = True
    """Whether any row has or may soon have the figures of a copy."""


class ColumnLayout(msgspec.Struct, frozen=True):
    """The columns that fit, in order, with their widths; equal layouts draw the same."""

    width: int
    gap: int
    columns: tuple[tuple[Column, int], ...]
    span: int = SPANS[0]
    """Slots of time that the timeline reaches back."""

    def width_of(self, column: Column) -> int:
        """Return a column's width in cells; 0 if it is left out."""
        return dict(self.columns).get(column, 0)

    def spans(self) -> Iterator[tuple[Column, int, int]]:
        """Yield each column with the cell where it starts and its width."""
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
    gap = 2 if width >= _WIDE else 1
    widths = {
        **_WIDTHS,
        Column.STATE: extents.state,
        Column.PARTITION: max(_LEAST_NAME, min(extents.name, _MODEST_NAME)),
        Column.REPLICAS: max(_LEAST_REPLICAS, min(extents.replicas, _MODEST_REPLICAS)),
    }
    if width >= _WIDEST:
        widths[Column.LEFT] = _LEFT_WITH_RANGE
    columns = _columns_that_fit(width - CURSOR_WIDTH, gap, widths, extents, batches=batches)
    used = sum(widths[column] for column in columns) + (len(columns) - 1) * gap
    _spread(max(0, width - CURSOR_WIDTH - used), columns, widths, extents, span)
    return ColumnLayout(width, gap, tuple((each, widths[each]) for each in columns), span)


def _columns_that_fit(
    room: int, gap: int, widths: dict[Column, int], extents: Extents, *, batches: bool
) -> list[Column]:
    """Return the columns in their order, without those that nobody needs or that do not fit."""
    columns = [
        column
        for column in Column
        if (extents.copying or column not in _FIGURES) and (batches or column is not Column.BATCH)
    ]
    for least_needed in _LEAST_NEEDED_FIRST:
        if sum(widths[column] + gap for column in columns) - gap <= room:
            break
        if least_needed in columns:
            columns.remove(least_needed)
        if least_needed is Column.BATCH:
            widths[Column.TIMELINE] = _LEAST_TIMELINE
    return columns


def _spread(
    spare: int, columns: list[Column], widths: dict[Column, int], extents: Extents, span: int
) -> None:
    """Give spare cells to what is cut: names, replicas; then to the timeline and to reasons."""
    for column, most in ((Column.PARTITION, extents.name), (Column.REPLICAS, extents.replicas)):
        wanted = max(0, min(most - widths[column], spare))
        widths[column] += wanted
        spare -= wanted
    if Column.TIMELINE not in columns:
        if Column.REASON in columns:
            widths[Column.REASON] += spare
        return
    room = widths[Column.TIMELINE] + spare
    if Column.REASON not in columns:
        widths[Column.TIMELINE] = timeline_width(room, span)
        return
    room += widths[Column.REASON]
    wanted = max(_WIDTHS[Column.TIMELINE], min(_BEST_TIMELINE, room // 2))
    timeline = timeline_width(wanted, span)
    widths[Column.TIMELINE], widths[Column.REASON] = timeline, room - timeline
