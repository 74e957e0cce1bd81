"""The columns of the list: what stands in them, what they sort by, which fit; and whole rows.

A cell is drawn of a timeline, its width, the context of the row, and the seconds of a cell of the
timelines. A figure is one of a timeline and that context. `has` is asked with what the
rows need, and whether a run is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from textual.cache import LRUCache
from textual.strip import Strip

from ktui import columns
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.states import State
from ktui.progress.timeline import Phase, Role, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import (
    Piece,
    Window,
    cell_seconds,
    cut_pieces,
    cut_sentence,
    faded,
    partition_text,
    pieces_width,
    replica_pieces,
    stalled_span,
    timeline_cells,
)
from ktui.tui.draw.paint import Paint
from ktui.tui.screens.watch.state import reason, state_cell, urgency
from ktui.tui.screens.watch.words import RowContext, never_begun

CURSOR_WIDTH = 2  # cells before the first column: the sign of the cursor and that of a mark
_WIDE = 99
_LEAST_TIMELINES = ((79, 24), (119, 40), (199, 70))
"""The cells of a timeline that nothing else may take, by the width of the list."""
_NARROWEST = 8  # cells of a timeline in a terminal of fewer than 80 columns
_TAIL = 2 / 7
"""The part of a wide list after the timeline, in which most reasons are whole, if there is room."""

_NOT_KEPT = (Role.RETIRING, Role.GONE)

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


def _batch(timeline: Timeline, _width: int, context: RowContext, _cell_s: float) -> list[Piece]:
    batch = _batch_number(timeline, context)
    return [] if batch is None else [Piece(f"#{batch:,}")]


def _batch_number(timeline: Timeline, context: RowContext) -> int | None:
    track = None if context.run is None else context.run.track(timeline.tp)
    if track is None or (track.step is None and track.state is not State.READY):
        return None
    return track.batch


def _target(timeline: Timeline, _width: int, context: RowContext, _cell_s: float) -> list[Piece]:
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


def _history(timeline: Timeline, width: int, context: RowContext, cell_s: float) -> list[Piece]:
    kept = (lane.history for lane in timeline.lanes.values() if lane.role not in _NOT_KEPT)
    cells = timeline_cells(
        timeline.recent,
        width,
        Window(context.until_s, cell_s),
        older=[history for history in kept if history is not None],
        spans=[
            *context.past_spans(timeline),
            *stalled_span(None if timeline.phase.ended else timeline.stall),
        ],
        signs=context.signs(timeline, cell_s),
    )
    return _calm(cells) if context.needs_no_hand(timeline) else cells


def _replicas(timeline: Timeline, width: int, context: RowContext, _cell_s: float) -> list[Piece]:
    state, (leaving, coming, to_lead) = timeline.state, context.to_change(timeline)
    pieces = replica_pieces(state, context.down, leaving, coming, to_lead)
    if pieces_width(pieces) > width:  # what is to leave is shown first
        pieces = replica_pieces(state, context.down, leaving, (), to_lead)
    return _calm(pieces) if context.needs_no_hand(timeline) else pieces


def _calm(pieces: Iterable[Piece]) -> list[Piece]:
    return [p._replace(role="dim") if p.role == "out-of-sync" else p for p in pieces]


# ---------------------------------------------------------------------------- the columns


def _copying(extents: Extents, _run: object) -> bool:
    return extents.copying


# The ranks: a narrow terminal first leaves out what other columns say, too (the target that the
# replicas are on their way to, bytes beside the lag), then what the timeline has as a mark (the
# batch), then figures; how long it still takes goes last. The timeline stays, and so does the
# room after it: for figures, or for a reason in their place.
PARTITION = Column(
    heading="partition", cell=_partition, width=9, needs=lambda extents: extents.name, most=16,
    wide=28, figure=lambda *_: 0.0, steady=True,  # rows of equal figures are ordered by name
)  # fmt: skip
STATE = Column(
    heading="state", cell=lambda t, _w, context, _s: [state_cell(t, context)], width=12,
    needs=lambda extents: extents.state, figure=urgency, steady=True,
)  # fmt: skip
REPLICAS = Column(
    heading="replicas", cell=_replicas, width=8, needs=lambda extents: extents.replicas, most=16,
)  # fmt: skip
TARGET = Column(
    heading="target", cell=_target, width=8, needs=lambda extents: extents.replicas, most=16,
    rank=8, has=lambda extents, run: run or extents.copying,
)  # fmt: skip
BATCH = Column(
    heading="batch", cell=_batch, right=True, width=5, rank=5, has=lambda _, run: run,
    figure=_batch_number, largest_first=True,
)  # fmt: skip
TIMELINE = Column(heading="timeline", cell=_history, width=_NARROWEST)
RATE = Column(
    heading="rate", cell=_rate, right=True, width=8, rank=3, has=_copying,
    figure=lambda timeline, _: timeline.rate_bytes_s,
)  # fmt: skip
LEFT = Column(
    heading="left", cell=_left, right=True, width=7, rank=1, has=_copying,
    figure=lambda t, _: None if t.left_s is None else t.left_s.middle, largest_first=True,
)  # fmt: skip
LAG = Column(
    heading="lag", cell=_lag, right=True, width=9, rank=4, has=_copying,
    figure=lambda timeline, _: timeline.lag_messages, largest_first=True,
)  # fmt: skip
TO_COPY = Column(
    heading="to copy", cell=_to_copy, right=True, width=8, rank=7, has=_copying,
    figure=lambda timeline, _: timeline.lag_bytes, largest_first=True,
)  # fmt: skip
COLUMNS = (PARTITION, STATE, REPLICAS, TARGET, BATCH, TIMELINE, RATE, LEFT, LAG, TO_COPY)
TAIL = COLUMNS[COLUMNS.index(TIMELINE) + 1 :]
"""The columns whose place the reason of a row takes."""
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
    cell_s: float = 1.0  # the seconds of a cell of the timelines

    def width_of(self, column: Column) -> int:
        return dict(self.columns).get(column, 0)

    def spans(self) -> Iterator[tuple[Column, int, int]]:
        start = CURSOR_WIDTH
        for column, width in self.columns:
            yield column, start, width
            start += width + self.gap

    @property
    def tail(self) -> int:
        """The cell at which the figures after the timeline begin."""
        return next(start + width + self.gap for c, start, width in self.spans() if c is TIMELINE)

    def at(self, x: int) -> Column | None:
        """Return the column under a cell; the gap after a column belongs to it."""
        found = (c for c, start, width in self.spans() if start <= x < start + width + self.gap)
        return next(found, None)


def layout(
    width: int, extents: Extents, seconds: float = 0.0, *, batches: bool = False
) -> ColumnLayout:
    """Lay out the columns in `width` cells; timelines reach back for so many seconds.

    With `batches`, each partition's batch has a column if there is room. The timeline has what no
    other column needs.
    """
    gap, room = 2 if width >= _WIDE else 1, width - CURSOR_WIDTH

    def widths(shown: Sequence[Column]) -> dict[Column, int]:
        found = {each: _least(each, extents, wide=width >= _WIDE) for each in shown}
        if any(each.rank >= LAG.rank for each in shown):  # names go before these
            found[PARTITION] = _needed(PARTITION, extents)
        return {**found, TIMELINE: least_timeline(width)}

    def used(shown: Sequence[Column]) -> int:
        return sum(widths(shown).values()) + (len(shown) - 1) * gap

    wanted = [each for each in COLUMNS if each.has(extents, batches)]
    shown = columns.leave_out(wanted, lambda some: used(some) <= room)
    fitted, spare = widths(shown), room - used(shown)
    for column in (PARTITION, REPLICAS):
        more = max(0, _needed(column, extents) - fitted[column]) if spare > 0 else 0
        change = min(spare, more)
        if spare < 0:  # a narrow terminal: what is cut still says something
            change = -min(-spare, fitted[column] - column.width)
        fitted[column] += change
        spare -= change
    if width >= _WIDE:
        tail = sum(fitted[each] + gap for each in TAIL if each in fitted)
        spare -= min(max(0, spare), max(0, round(_TAIL * width) - tail))
    fitted[TIMELINE] = max(_NARROWEST, fitted[TIMELINE] + spare)
    cell_s = cell_seconds(seconds, fitted[TIMELINE])
    return ColumnLayout(width, gap, tuple(fitted.items()), cell_s)


def least_timeline(width: int) -> int:
    """Return the cells that a timeline has at least in a list of this width."""
    narrowest, least = _LEAST_TIMELINES[0]
    if width < narrowest:
        return max(_NARROWEST, least + width - narrowest)
    for (narrow, least), (wide, more) in pairwise(_LEAST_TIMELINES):
        if width <= wide:
            return least + (width - narrow) * (more - least) // (wide - narrow)
    return _LEAST_TIMELINES[-1][1]


def _needed(column: Column, extents: Extents) -> int:
    return column.width if column.needs is None else max(column.width, column.needs(extents))


def _least(column: Column, extents: Extents, *, wide: bool) -> int:
    most = (wide and column.wide) or column.most
    needed = _needed(column, extents)
    return min(needed, most) if most else needed


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


CURSOR = "▌"
MARK = "◆"
_CACHED_STRIPS = 2_000
_BELOW = Piece("└ ", "dim")  # before what stands under its row
_SENTENCE = 12  # cells in which the beginning of a sentence says something
_SHORTER = (
    (" of its target", ""), (" is ", " "), ("broker ", "b"),
    ("drop waits: ", ""), (" ready", ""), (" of ", "/"), (" under way (P)", " (P)"), (": ", " "),
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
        if over_at is None:
            return None
        over = _at(over_at, room)
        whole = f"cancelled {over}" if never_begun(track) else over
        return Piece(whole if len(whole) <= room else over, "dim")
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
