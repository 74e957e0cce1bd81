"""One partition's row: its cells, and the sentence that may take the room of some."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from textual.cache import LRUCache
from textual.strip import Strip

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, cut_sentence, faded, pieces_width
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.watch.columns import (
    CURSOR_WIDTH,
    LAG,
    RATE,
    TIMELINE,
    ColumnLayout,
)
from ktui.tui.screens.watch.state import reason
from ktui.tui.screens.watch.words import RowContext

CURSOR = "▌"
MARK = "◆"
_CACHED_STRIPS = 2_000
_BELOW = Piece("└ ", "dim")  # before what stands under its row
_SENTENCE = 12  # cells in which the beginning of a sentence says something
_SHORTER = (
    (" of its target", ""), (" is ", " "), ("broker ", "b"), (" ready, drop together", ""),
    (" of ", "/"), (" under way (P)", " (P)"), (": ", " "),
)  # fmt: skip
"""What a sentence can spare where it has only a few cells: its words stand under the cursor."""


def row_pieces(timeline: Timeline, layout: ColumnLayout, context: RowContext) -> list[Piece]:
    """Draw a row without the sign of the cursor: each column at its width, gaps between.

    A reason, or when a move ended, takes the place of the figures after the timeline, as many as it
    needs.
    """
    pieces: list[Piece] = []
    gap = Piece(" " * layout.gap, "rule")
    words = reason(timeline, context) or _ending(timeline, layout, context)
    tail = layout.tail
    until = tail if words is None else _end_of(words, layout)
    for column, start, width in layout.spans():
        if tail <= start < until:
            continue
        cell = column.cell(timeline, width, context, layout.cell_s)
        if column.right:
            cell.insert(0, Piece(" " * (width - pieces_width(cell)), "rule"))
        pieces += cut_pieces(cell, width)
        pieces.append(gap)
        if column is TIMELINE and words is not None:
            pieces += [*_sentence(words, until - tail), gap]
    return pieces


def _end_of(words: Piece, layout: ColumnLayout) -> int:
    """Return the cell at which the figures begin that a reason leaves: the end of a column."""
    tail = layout.tail
    needed = tail + pieces_width([words])
    ends = (start + width for _, start, width in layout.spans() if start >= tail)
    return next((end for end in ends if end >= needed), layout.width)


def pieces_below(
    timeline: Timeline, layout: ColumnLayout, context: RowContext
) -> list[Piece] | None:
    """Draw what a row has no room for, under it: its reason, else the lag and the rate.

    None where the row says it all.
    """
    words = reason(timeline, context)
    if words is not None:
        if pieces_width([words]) <= layout.width - layout.tail:
            return None
        room = layout.width - CURSOR_WIDTH - pieces_width([_BELOW])
        return [_BELOW, words._replace(text=cut_sentence(words.text, room))]
    pieces: list[Piece] = []
    for column in (LAG, RATE):
        cell = [] if layout.width_of(column) else column.cell(timeline, 0, context, 0)
        if cell:
            pieces += [Piece(f"{'   ' if pieces else ''}{column.heading} ", "dim"), *cell]
    return [_BELOW, *pieces] if pieces else None


def _ending(timeline: Timeline, layout: ColumnLayout, context: RowContext) -> Piece | None:
    """Return when a partition ended and how long it took, in words that are not cut.

    Return which run moves it, where that is not the one shown.
    """
    if (elsewhere := context.elsewhere(timeline)) is not None:
        return Piece(f"run {elsewhere.run}", "foreign")
    track, room = context.track(timeline), layout.width - layout.tail
    if track is not None:
        over_at = track.since if track.state.ended else None
        return None if over_at is None else Piece(_at(over_at, room), "dim")
    if timeline.ended_at is None:
        return None
    took = (timeline.ended_at - timeline.began_at).total_seconds()
    ended = _at(timeline.ended_at, room)
    whole = f"{ended} after {figures.as_seen(took, whole=timeline.seen_from_start)}"
    return Piece(whole if len(whole) <= room else ended, "dim")


def _at(moment: datetime, room: int) -> str:
    time = figures.as_time(moment)
    fitting = (text for text in (f"at {time}", time) if len(text) <= room)
    return next(fitting, f"@ {time.rpartition(':')[0]}")  # a bare time would be what is left


def _sentence(words: Piece, width: int) -> list[Piece]:
    text = words.text
    for long, short in _SHORTER if width < _SENTENCE else ():
        text = text if len(text) <= width else text.replace(long, short)
    return cut_pieces([words._replace(text=cut_sentence(text, width))], width)


# ------------------------------------------------------------------------- drawn rows


class RowInputs(NamedTuple):
    """The data that a row is drawn from, apart from the layout and the theme."""

    timeline: Timeline
    context: RowContext
    under_cursor: bool
    marked: bool

    def same(self, other: RowInputs) -> bool:
        """Timelines are compared by identity."""
        alike = self.timeline is other.timeline and self.context is other.context
        return alike and self[2:] == other[2:]


class StripCache:
    """Draws rows, each only once while it stays the same."""

    def __init__(self) -> None:
        self._strips: LRUCache[TopicPartition, tuple[RowInputs, Strip]] = LRUCache(_CACHED_STRIPS)

    def forget(self) -> None:
        self._strips.clear()

    def known(self, tp: TopicPartition) -> Strip | None:
        drawn = self._strips.get(tp)
        return None if drawn is None else drawn[1]

    def strip(
        self, shown: RowInputs, layout: ColumnLayout, paint: Paint, width: int, *, stale: bool
    ) -> Strip:
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
    pieces = row_pieces(shown.timeline, layout, shown.context)
    signs = [
        Piece(CURSOR if shown.under_cursor else " ", "moving"),
        Piece(MARK if shown.marked else " ", "next-leader", bold=True),
    ]
    behind = "cursor" if shown.under_cursor else "background"
    strip = Strip(paint.segments([*signs, *(faded(pieces) if stale else pieces)], behind))
    return strip.adjust_cell_length(width, paint.background(behind))
