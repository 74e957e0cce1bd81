"""A cache of drawn rows of the partition list, each valid until something in it changes."""

from __future__ import annotations

from typing import NamedTuple

from textual.cache import LRUCache
from textual.strip import Strip

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.draw.cells import Piece, faded
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.watch.columns import ColumnLayout
from ktui.tui.screens.watch.row import CURSOR, row_pieces
from ktui.tui.screens.watch.row_context import RowContext

MARK = "◆"
"""The sign before a partition that the operator has marked."""
_CACHED_STRIPS = 2_000


class RowInputs(NamedTuple):
    """The data that a row is drawn from, apart from the layout and the theme."""

    timeline: Timeline
    moment: RowContext
    under_cursor: bool
    marked: bool

    def same(self, other: RowInputs) -> bool:
        """Return whether the other shows the same; timelines are compared by identity."""
        alike = self.timeline is other.timeline and self.moment is other.moment
        return alike and self[2:] == other[2:]


class StripCache:
    """Draws rows, each only once while it stays the same."""

    def __init__(self) -> None:
        self._strips: LRUCache[TopicPartition, tuple[RowInputs, Strip]] = LRUCache(_CACHED_STRIPS)

    def forget(self) -> None:
        """Drop all rows: the layout or the theme has changed."""
        self._strips.clear()

    def known(self, tp: TopicPartition) -> Strip | None:
        """Return a row as it was drawn last; None if it was not drawn or left the cache."""
        drawn = self._strips.get(tp)
        return None if drawn is None else drawn[1]

    def strip(
        self, shown: RowInputs, layout: ColumnLayout, paint: Paint, width: int, *, stale: bool
    ) -> Strip:
        """Return a row, drawn grey if its figures are no longer current."""
        tp = shown.timeline.tp
        drawn = self._strips.get(tp)
        if drawn is not None and drawn[0].same(shown):
            return drawn[1]
        strip = _drawn(shown, layout, paint, width, stale=stale)
        self._strips.discard(tp)  # otherwise the old strip would stay
        self._strips.set(tp, (shown, strip))
        return strip


def _drawn(
    shown: RowInputs, layout: ColumnLayout, paint: Paint, width: int, *, stale: bool
) -> Strip:
    pieces = row_pieces(shown.timeline, layout, shown.moment)
    signs = [
        Piece(CURSOR if shown.under_cursor else " ", "moving"),
        Piece(MARK if shown.marked else " ", "next-leader", bold=True),
    ]
    behind = "cursor" if shown.under_cursor else "background"
    strip = Strip(paint.segments([*signs, *(faded(pieces) if stale else pieces)], behind))
    return strip.adjust_cell_length(width, paint.background(behind))
