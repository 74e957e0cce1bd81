"""The columns of the partition list: those that fit, and their widths."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from ktui.tui.draw.cells import SPANS, timeline_width

CURSOR_WIDTH = 2
"""Cells before the first column: the sign of the cursor and that of a mark."""


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
_LEAST_NAME, _LEAST_REPLICAS, _LEAST_STATE = 9, 8, 12
_WIDTHS = {
    Column.STATE: _LEAST_STATE, Column.BATCH: 5, Column.LAG: 9, Column.TO_COPY: 8, Column.RATE: 8,
    Column.LEFT: 7,
}  # fmt: skip
_LEFT_WITH_RANGE = 22
_WIDE, _WIDER, _WIDEST = 100, 140, 170
_LEAST_TIMELINE, _GOOD_TIMELINE, _BEST_TIMELINE = 10, 20, 60
_LEAST_REASON = 18
_AMPLE = 60
"""Room in cells from which two fifths are for the timeline; below it, a quarter."""
_MODEST_REPLICAS = 16


class Extents(msgspec.Struct, frozen=True):
    """The widest name, replica list and state among the rows, in cells."""

    name: int = _LEAST_NAME
    replicas: int = _LEAST_REPLICAS
    state: int = _LEAST_STATE


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
    figures = [Column.LAG, Column.RATE, Column.LEFT]
    if width >= _WIDER:
        figures.insert(1, Column.TO_COPY)
    widths = {**_WIDTHS, Column.STATE: extents.state}
    if width >= _WIDEST:
        widths[Column.LEFT] = _LEFT_WITH_RANGE
    if batches and width >= _WIDE:
        figures.insert(0, Column.BATCH)
    room = _room(width, gap, figures, widths)
    if room < _room_needed(width, extents):
        figures.remove(Column.RATE)
        room = _room(width, gap, figures, widths)
    name, replicas = _names(room, extents)
    rest = room - name - replicas
    before = [
        (c, widths[c])
        for c in (Column.STATE, Column.BATCH)
        if c is not Column.BATCH or c in figures
    ]
    fixed = [(column, widths[column]) for column in figures if column is not Column.BATCH]
    columns = (
        (Column.PARTITION, name),
        *before,
        (Column.REPLICAS, replicas),
        *fixed,
        *_tail(rest, gap, span),
    )
    return ColumnLayout(width, gap, columns, span)


def _room(width: int, gap: int, figures: list[Column], widths: dict[Column, int]) -> int:
    """Return the cells left for name, replicas and timeline."""
    fixed = widths[Column.STATE] + sum(widths[column] for column in figures)
    gaps = (len(figures) + 3) * gap
    return max(0, width - CURSOR_WIDTH - fixed - gaps)


def _room_needed(width: int, extents: Extents) -> int:
    """Return the room below which the rate is left out: lag and time left imply it."""
    name = min(extents.name, width // 5)
    return name + min(extents.replicas, _MODEST_REPLICAS) + _LEAST_TIMELINE


def _names(room: int, extents: Extents) -> tuple[int, int]:
    """Share the room between names and replicas; a cut name can still be recognised."""
    tail = room * 2 // 5 if room >= _AMPLE else room // 4
    spare = max(_LEAST_NAME + _LEAST_REPLICAS, room - max(_LEAST_TIMELINE, tail))
    widest_name = max(_LEAST_NAME, extents.name)
    replicas = max(_LEAST_REPLICAS, extents.replicas)
    replicas = min(replicas, spare - min(widest_name, max(_LEAST_NAME, spare * 2 // 5)))
    return min(widest_name, spare - replicas), replicas


def _tail(rest: int, gap: int, span: int) -> list[tuple[Column, int]]:
    if rest < _GOOD_TIMELINE + gap + _LEAST_REASON:
        return [(Column.TIMELINE, timeline_width(rest, span))]
    room = max(_GOOD_TIMELINE, min(_BEST_TIMELINE, rest // 2))
    timeline = timeline_width(room, span)
    return [(Column.TIMELINE, timeline), (Column.REASON, rest - gap - timeline)]
