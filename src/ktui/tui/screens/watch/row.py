"""One partition's row, column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ktui.execution.run.states import State
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import (
    Piece,
    cut_pieces,
    cut_sentence,
    partition_text,
    pieces_width,
    replica_pieces,
    slowest_share,
    timeline_cells,
)
from ktui.tui.screens.watch.columns import Column, ColumnLayout
from ktui.tui.screens.watch.row_context import RowContext
from ktui.tui.screens.watch.words import OF_OTHERS, held_up, run_reason, run_state, state_piece

CURSOR = "▌"
_FIGURES = (Column.LAG, Column.TO_COPY, Column.RATE, Column.LEFT)
_GIVING_WAY = (Column.REASON, Column.TIMELINE, *reversed(_FIGURES))
"""The columns whose room a reason takes, the rightmost first."""
_LEAST_REASON = 24
"""With fewer cells than this, a reason takes the room of the replicas, too."""
_ENDED = {
    Phase.DONE: ("done", "in-sync"),
    Phase.CANCELLED: ("cancelled", "cancelled"),
    Phase.CHANGED_ELSEWHERE: ("changed elsewhere", "foreign"),
    Phase.TOPIC_GONE: ("topic gone", "dim"),
    Phase.SETTLING: ("settling", "waiting"),
}


class SentencePlace(NamedTuple):
    """The cells of a row in which its reason stands in place of columns."""

    start: int
    until: int

    def covers(self, start: int, width: int) -> bool:
        """Return whether a column has no room beside the sentence."""
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
                    cell = _CELLS[column](timeline, width, context)
                    pieces += cut_pieces(cell, place.start - start)
                pieces += [*_sentence(words, place.until - place.start), gap]
            continue
        if column is Column.TIMELINE:
            cell = _history(timeline, width, context, layout.span)
        elif column is Column.REASON:
            cell = [] if written or words is None else _sentence(words, width)
        else:
            cell = _CELLS[column](timeline, width, context)
        if column.numeric:
            cell.insert(0, Piece(" " * (width - pieces_width(cell)), "rule"))
        pieces += cut_pieces(cell, width)
        pieces.append(gap)
    return pieces


def state_cell(timeline: Timeline, context: RowContext) -> Piece:
    """Return the word for a partition's state, and for trouble how long it has lasted."""
    condition = context.health(timeline)
    if context.shows_health(timeline, condition):
        return Piece(condition.word, condition.role, bold=condition.role == "stalled")
    track = context.track(timeline)
    if track is not None and context.run is not None:
        stalled_s = context.stalled_s(track)
        return run_state(track, context.run, timeline, context.now_s, stalled_s)
    elsewhere = context.elsewhere(timeline)
    if elsewhere is not None and timeline.phase is not Phase.STALLED:
        if elsewhere.state is State.STALLED:
            return Piece("STALLED", "stalled", bold=True)
        if elsewhere.state not in (State.ADDING, State.QUEUED):
            return state_piece(elsewhere.state)
    if timeline.phase in _ENDED and elsewhere is None:
        return Piece(*_ENDED[timeline.phase])
    return _moving(timeline, context)


def _moving(timeline: Timeline, context: RowContext) -> Piece:
    if timeline.held_up and (waits := timeline.stall) is not None:
        return held_up(waits, context.now_s)
    stall = timeline.stall if timeline.stall is not None and timeline.stall.alarm else None
    age = "" if stall is None else f" {figures.as_age(context.now_s - stall.since_s)}"
    if timeline.phase is Phase.STALLED:
        return Piece(f"STALLED{age}", "stalled", bold=True)
    if stall is not None:
        return Piece(f"behind{age}", "falling-behind")
    share, approximate = slowest_share(timeline)
    percent = "" if share is None else f" {figures.as_share(share, approximate=approximate)}"
    return Piece(f"moving{percent}", "moving")


def reason(timeline: Timeline, context: RowContext) -> Piece | None:
    """Return the reason for trouble or for waiting; None while all is as it should be."""
    condition = context.health(timeline)
    if context.shows_health(timeline, condition):
        return Piece(condition.wrong, condition.role) if condition.wrong else None
    track = context.track(timeline)
    if track is not None and context.run is not None:
        run_words = run_reason(track, context.run)
        if track.state in OF_OTHERS and timeline.phase is Phase.STALLED:
            return _foreign_stall(timeline, context) or run_words
        if run_words is not None or track.step is None:
            return run_words
    stall = None if timeline.phase in _ENDED else timeline.stall
    if stall is not None:
        words = stall.detail or f"broker {stall.broker}: {stall.cause}"
        if context.run is not None and track is None:
            words = f"{_of_run(timeline, context) or 'foreign: '}{words}"
        role = state_cell(timeline, context).role if stall.alarm else "waiting"
        return Piece(words, role)
    if condition.severe and timeline.phase is not Phase.TOPIC_GONE:
        return Piece(f"{condition.word}: {condition.wrong}", condition.role)
    return None


def _foreign_stall(timeline: Timeline, context: RowContext) -> Piece | None:
    """Return the stall of somebody else's move, which the state column leaves out."""
    if timeline.stall is None:
        return None
    age = figures.as_age(context.now_s - timeline.stall.since_s)
    what = timeline.stall.detail or f"broker {timeline.stall.broker}: {timeline.stall.cause}"
    return Piece(f"{_of_run(timeline, context)}{what}, stalled {age}", "stalled")


def _of_run(timeline: Timeline, context: RowContext) -> str:
    """Return the name of the other run that moves a partition, before a reason."""
    elsewhere = context.elsewhere(timeline)
    mover = None if context.run is None else context.run.movers.get(timeline.tp)
    mover = mover or (None if elsewhere is None else elsewhere.run)
    return "" if mover is None else f"run {mover}: "


def _place_of(
    words: Piece, timeline: Timeline, layout: ColumnLayout, context: RowContext
) -> SentencePlace | None:
    """Return where a reason stands for which its own column is too narrow or missing.

    What the row needs least gives way first: figures that it does not have, the timeline, other
    figures. The replicas give way only to a reason that is whole thereby, or that has hardly any
    room. None for a reason that fits its column.
    """
    needed = pieces_width([words])
    if needed <= layout.width_of(Column.REASON):
        return None
    starts = {column: start for column, start, _ in layout.spans()}
    whole = layout.width - 1
    figures_from = _free_from(timeline, starts)
    if timeline.lanes and (history := starts.get(Column.TIMELINE)) is not None:
        before = history - layout.gap
        if figures_from + needed <= before:
            return SentencePlace(figures_from, before)
    if timeline.phase.ended or not timeline.catching_up:
        places = [figures_from]
    else:
        places = [starts[column] for column in _GIVING_WAY if column in starts]
    if words.role not in ("waiting", "dim"):
        replicas = starts[Column.REPLICAS]
        after = replicas + pieces_width(replica_pieces(timeline.state, context.down)) + layout.gap
        cramped = whole - after < min(needed, _LEAST_REASON)
        places += [replicas] if cramped else [after]
        if replicas + needed <= whole:
            return SentencePlace(_first_with_room([*places, replicas], needed, whole), whole)
    return SentencePlace(_first_with_room(places, needed, whole), whole)


def _first_with_room(places: Sequence[int], needed: int, whole: int) -> int:
    return next((place for place in places if place + needed <= whole), places[-1])


def _free_from(timeline: Timeline, starts: Mapping[Column, int]) -> int:
    """Return the cell from which the row has no figures before its timeline."""
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
    columns = [*unknown, Column.TIMELINE, Column.REASON]
    return min(
        (starts[each] for each in columns if each in starts), default=starts[Column.REPLICAS]
    )


def _history(timeline: Timeline, width: int, context: RowContext, span: int) -> list[Piece]:
    """Draw the timeline; a partition of the run has waited until its first step."""
    track = context.track(timeline)
    waits = None if track is None else context.waiting(track)
    sign = None if track is None else context.cancel_sign(track)
    return timeline_cells(timeline.recent, width, context.now_s, span, waits=waits, sign=sign)


def _batch(timeline: Timeline, _width: int, context: RowContext) -> list[Piece]:
    track = None if context.run is None else context.run.track(timeline.tp)
    return [] if track is None or track.batch is None else [Piece(f"{track.batch:,}")]


def _partition(timeline: Timeline, width: int, _context: RowContext) -> list[Piece]:
    role = "dim" if timeline.phase is Phase.TOPIC_GONE else ""
    return [Piece(partition_text(timeline.tp, width), role)]


def _state(timeline: Timeline, _width: int, context: RowContext) -> list[Piece]:
    return [state_cell(timeline, context)]


def _replicas(timeline: Timeline, _width: int, context: RowContext) -> list[Piece]:
    return replica_pieces(timeline.state, context.down)


def _lag(timeline: Timeline, _width: int, _context: RowContext) -> list[Piece]:
    if timeline.phase.ended or not timeline.catching_up:
        return []
    if timeline.lag_messages is not None:
        return [Piece(figures.as_messages(timeline.lag_messages))]
    if timeline.lag_bytes is not None:
        return [Piece(f"~{figures.as_bytes(timeline.lag_bytes)}")]
    return [Piece(figures.UNKNOWN, "dim")]


def _to_copy(timeline: Timeline, _width: int, _context: RowContext) -> list[Piece]:
    if timeline.phase.ended or not timeline.catching_up or timeline.lag_bytes is None:
        return []
    return [Piece(figures.as_bytes(timeline.lag_bytes))]


def _rate(timeline: Timeline, _width: int, _context: RowContext) -> list[Piece]:
    if timeline.phase.ended or not timeline.catching_up:
        return []
    rate = figures.as_copying(timeline.rate_bytes_s)
    return [Piece(rate, "dim" if rate == figures.UNKNOWN else "")]


def _left(timeline: Timeline, width: int, _context: RowContext) -> list[Piece]:
    left = timeline.left_s
    if timeline.phase.ended or not timeline.catching_up:
        return []
    if left is None:
        return [Piece(figures.UNKNOWN, "dim")]
    with_range = figures.as_duration_range(left)
    return [Piece(with_range if len(with_range) <= width else figures.as_duration(left.middle))]


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
    own_column = layout.width_of(Column.REASON)
    return Piece(ended if 0 < own_column < len(whole) else whole, "dim")


def _sentence(words: Piece, width: int) -> list[Piece]:
    return cut_pieces([words._replace(text=cut_sentence(words.text, width))], width)


_Cell = Callable[[Timeline, int, RowContext], list[Piece]]
_CELLS: Mapping[Column, _Cell] = {
    Column.PARTITION: _partition,
    Column.STATE: _state,
    Column.BATCH: _batch,
    Column.REPLICAS: _replicas,
    Column.LAG: _lag,
    Column.TO_COPY: _to_copy,
    Column.RATE: _rate,
    Column.LEFT: _left,
}
