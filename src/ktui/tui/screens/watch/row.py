"""One partition's row: its cells, and the sentence that may take the room of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from textual.cache import LRUCache
from textual.strip import Strip

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, cut_sentence, faded, pieces_width, replica_pieces
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.watch.columns import (
    LAG,
    LEFT,
    RATE,
    REASON,
    REPLICAS,
    TIMELINE,
    TO_COPY,
    Column,
    ColumnLayout,
)
from ktui.tui.screens.watch.state import reason
from ktui.tui.screens.watch.words import RowContext

CURSOR = "▌"
MARK = "◆"
_CACHED_STRIPS = 2_000
_FIGURES = (LAG, TO_COPY, RATE, LEFT)
_GIVING_WAY = (REASON, TIMELINE, *reversed(_FIGURES))
"""The columns whose room a reason takes, the rightmost first."""
_LEAST_REASON = 24  # with fewer cells than this, a reason takes the room of the replicas, too


class SentencePlace(NamedTuple):
    """The cells of a row in which its reason stands in place of columns."""

    start: int
    until: int

    def covers(self, start: int, width: int) -> bool:
        return start < self.until and start + width > self.start


def row_pieces(timeline: Timeline, layout: ColumnLayout, context: RowContext) -> list[Piece]:
    """Draw a row without the sign of the cursor: each column at its width, gaps between."""
    pieces: list[Piece] = []
    gap = Piece(" " * layout.gap, "rule")
    words = reason(timeline, context) or _ending(timeline, layout, context)
    place = None if words is None else _place_of(words, timeline, layout, context)
    written = False
    for column, start, width in layout.spans():
        if words is not None and place is not None and place.covers(start, width):
            if not written:
                written = True
                if start < place.start:
                    cell = column.cell(timeline, width, context, layout.span)
                    pieces += cut_pieces(cell, place.start - start)
                pieces += [*_sentence(words, place.until - place.start), gap]
            continue
        cell = column.cell(timeline, width, context, layout.span)
        if column is REASON and words is not None and not written:
            cell = _sentence(words, width)
        if column.right:
            cell.insert(0, Piece(" " * (width - pieces_width(cell)), "rule"))
        pieces += cut_pieces(cell, width)
        pieces.append(gap)
    return pieces


def _place_of(
    words: Piece, timeline: Timeline, layout: ColumnLayout, context: RowContext
) -> SentencePlace | None:
    """Return where a reason stands for which its own column is too narrow or missing.

    What the row needs least gives way first: figures that it does not have, the timeline, other
    figures. The replicas give way only to a reason that is whole thereby, or that has hardly any
    room. None for a reason that fits its column.
    """
    needed = pieces_width([words])
    if needed <= layout.width_of(REASON):
        return None
    starts = {column: start for column, start, _ in layout.spans()}
    whole = layout.width - 1
    figures_from = _free_from(timeline, starts)
    if timeline.lanes and (history := starts.get(TIMELINE)) is not None:
        before = history - layout.gap
        if figures_from + needed <= before:
            return SentencePlace(figures_from, before)
    if timeline.phase.ended or not timeline.catching_up:
        places = [figures_from]
    else:
        places = [starts[column] for column in _GIVING_WAY if column in starts]
    if words.role not in ("waiting", "dim"):
        replicas = starts[REPLICAS]
        after = replicas + pieces_width(replica_pieces(timeline.state, context.down)) + layout.gap
        cramped = whole - after < min(needed, _LEAST_REASON)
        places += [replicas] if cramped else [after]
        if replicas + needed <= whole:
            return SentencePlace(_first_with_room([*places, replicas], needed, whole), whole)
    return SentencePlace(_first_with_room(places, needed, whole), whole)


def _first_with_room(places: Sequence[int], needed: int, whole: int) -> int:
    return next((place for place in places if place + needed <= whole), places[-1])


def _free_from(timeline: Timeline, starts: Mapping[Column, int]) -> int:
    unknown = list(_FIGURES)
    if not timeline.phase.ended and timeline.catching_up:
        known = (
            timeline.lag_messages is not None or timeline.lag_bytes is not None,
            timeline.lag_bytes is not None,
            (timeline.rate_bytes_s or 0.0) >= 1.0,
            timeline.left_s is not None,
        )
        last = max((place for place, has in enumerate(known) if has), default=-1)
        unknown = unknown[last + 1 :]
    columns = [*unknown, TIMELINE, REASON]
    return min((starts[each] for each in columns if each in starts), default=starts[REPLICAS])


def _ending(timeline: Timeline, layout: ColumnLayout, context: RowContext) -> Piece | None:
    """Return when a partition ended and how long it took, in words that are not cut.

    Return which run moves it, where that is not the one shown.
    """
    if (elsewhere := context.elsewhere(timeline)) is not None:
        return Piece(f"run {elsewhere.run}", "foreign")
    track = context.track(timeline)
    if track is not None:
        over_at = track.since if track.state.ended else None
        return None if over_at is None else Piece(f"at {figures.as_time(over_at)}", "dim")
    if timeline.ended_at is None:
        return None
    took = (timeline.ended_at - timeline.began_at).total_seconds()
    ended = f"at {figures.as_time(timeline.ended_at)}"
    whole = f"{ended} after {figures.as_seen(took, whole=timeline.seen_from_start)}"
    own_column = layout.width_of(REASON)
    return Piece(ended if 0 < own_column < len(whole) else whole, "dim")


def _sentence(words: Piece, width: int) -> list[Piece]:
    return cut_pieces([words._replace(text=cut_sentence(words.text, width))], width)


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
