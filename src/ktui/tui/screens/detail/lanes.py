"""The lanes of a partition on one axis of time: its replicas, its ISR, its lag and its rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from textual.content import Content

from ktui.progress.row import RateMemory, RateSample
from ktui.progress.timeline import Mark, Role, Slots, StallKind
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import rate_of
from ktui.tui.draw.cells import (
    BARS,
    COPYING,
    SIGNS,
    UNKNOWN,
    Cell,
    Piece,
    SpanOf,
    cut_pieces,
    mark_cell,
    pieces_width,
    stalled_span,
    timeline_cells,
)
from ktui.tui.draw.paint import content, table_lines
from ktui.tui.screens.detail.axis import (
    NOW_LINE,
    RACKS_FROM,
    TO_COME,
    Axis,
    Boundary,
    Curve,
    ReplicaLane,
    Subject,
    boundaries,
    captions,
    first_known,
    highest,
    isr_role,
    label_columns,
    lag_text,
    lags,
    level,
    mark_at,
    rate_text,
    replica_lanes,
    throttle_on_copies,
)

_FIGURES, _FIGURES_NARROW = (25, 17), (21, 14)
"""The cells of the figures beside the lanes, while replicas catch up and else."""
_SMOOTHED_S = 10.0  # of a lag, over which a rate is computed: a throttle works in gulps
_SELDOM_S = 20.0  # a rate stands for so long, where polls are rare
_GAP = "  "
_MOMENTS = {
    Mark.NOTHING: "not known",
    Mark.WAITING: "waiting",
    Mark.IN_SYNC: "in sync",
    Mark.LEADER: "leader",
    Mark.RETIRING: "to leave",
    Mark.OUT_OF_SYNC: "out of the ISR",
    Mark.STALLED: "stalled",
    Mark.LEADER_MOVED: "leader from here",
    Mark.CANCELLED: "dropped",
    Mark.GONE: "no replica",
}
_ISR_GLYPHS = {"stalled": "!", "out-of-sync": "░"}
_IN_ISR = frozenset(
    SIGNS[mark].glyph for mark in (Mark.IN_SYNC, Mark.LEADER, Mark.RETIRING, Mark.LEADER_MOVED)
)
_NOT_CROSSED = (SIGNS[Mark.LEADER_MOVED].glyph, SIGNS[Mark.CANCELLED].glyph)
_CURSOR = Cell("┃", "next-leader")
_BLANK = SIGNS[Mark.NOTHING]
_WAITS = SIGNS[Mark.WAITING]
_BY_JOURNAL = Cell("─", "dim")  # a replica, by the journal: whether in sync nobody saw
_UNPOLLED = {COPYING: "copying", _WAITS: "waiting", _BY_JOURNAL: "a replica"}
_OUT = SIGNS[Mark.OUT_OF_SYNC].glyph
_NOT_SEEN = Slots(slot_s=1.0, end_s=0.0, marks=b"")
_BLOCKS = f" {BARS}"
_NOT_MEASURED = " not measured "


class Line(NamedTuple):
    """A line of the picture: what it is, its cells along the axis, and its figure."""

    label: Sequence[Piece]
    cells: Sequence[Cell]
    figure: Sequence[Piece]
    rank: int = 0  # what goes first where lines are short has the highest


class Drawing:
    """Draws the lanes of a partition in `width` cells, also as of the moment under a cursor."""

    def __init__(
        self,
        subject: Subject,
        memory: RateMemory,
        width: int,
        *,
        zoom: float | None = None,
        cursor_s: float | None = None,
    ) -> None:
        self.subject, self._memory, self._zoom = subject, memory, zoom
        self.replicas = replica_lanes(subject)
        table = table_lines(label_columns(self.replicas, subject, width), self.replicas, "dim")
        self._labels = table
        self.left = pieces_width(table[0]) + len(_GAP)
        self._bound = throttle_on_copies(subject)
        self.cursor: int | None = None
        wide, narrow = _FIGURES if width >= RACKS_FROM else _FIGURES_NARROW
        self._figures = wide if self._catching_up else narrow  # fixed, so that nothing jumps
        room = max(1, width - self.left - self._figures - len(_GAP))
        self.axis = Axis.over(subject, room, zoom)
        if cursor_s is not None:
            self.cursor = min(max(0, self.axis.place(cursor_s)), self.axis.past - 1)
        self._boundaries = boundaries(subject, self.axis)
        crossing = ((self.axis.place(x.at_s), x.cell) for x in self._boundaries if x.crosses)
        self._crossing = {at: cell for at, cell in crossing if 0 <= at < self.axis.width}
        self._lane_cells = [self._cells_of(each) for each in self.replicas]

    # ------------------------------------------------------------------ the lines

    def heading(self) -> Line:
        at = "" if self.cursor is None else f"at {self._cursor_time}"
        cells = [Cell(glyph, "dim") for glyph in self.axis.heading()]
        if self.cursor is not None:
            cells[self.cursor] = _CURSOR._replace(glyph="▼")
        return Line(self._labels[0], cells, [Piece(at, "next-leader", bold=True)])

    def captions(self) -> Line:
        moved = [
            Boundary(self.axis.second(place), SIGNS[Mark.LEADER_MOVED], (f"leader {each.broker}",))
            for each, cells in zip(self.replicas, self._lane_cells, strict=True)
            for place, cell in enumerate(cells)
            if cell == SIGNS[Mark.LEADER_MOVED]
        ]
        cells = captions(self.axis, [*moved, *self._boundaries])
        back = [] if self.cursor is None else [Piece("esc: back to now", "dim")]
        cut = self._zoom is not None and self.subject.end_s - self.subject.begins_s > self._zoom
        zoomed = [Piece(f"last {figures.as_age(self._zoom or 0.0)} (z)", "dim")] if cut else []
        return Line(zoomed, [Cell(piece.text, piece.role) for piece in cells], back)

    def lanes(self) -> list[Line]:
        return [
            Line(label, self._crossed(cells), self._figure(each), rank=each.rank)
            for label, cells, each in zip(
                self._labels[1:], self._lane_cells, self.replicas, strict=True
            )
        ]

    @property
    def curves(self) -> int:
        """How many there are: of the lag, and of the rates."""
        return sum(curve is not None for curve in self._curves)

    def charts(
        self, lag: int = 1, copied: int = 1, *, isr: bool = True, most: int = 3
    ) -> list[Line]:
        """Draw the ISR, and the first curves; two of them in so many rows."""
        lines = [self._isr()] if isr else []
        known = [
            (curve, height)
            for curve, height in zip(self._curves, (lag, copied, 1), strict=True)
            if curve is not None
        ]
        for curve, height in known[:most]:
            lines += self._curve_lines(curve, 1 if curve.flat else height)
        return lines

    def drawn(self, line: Line) -> Content:
        """Draw a line in cells of the terminal."""
        label = cut_pieces(line.label, self.left)
        figure = cut_pieces(line.figure, self._figures) if line.figure else []
        gap = Piece(" " * (len(_GAP) + self.axis.width - len(line.cells)))
        return content([*label, *_pieces(line.cells), gap, *figure])

    def figures_of(self, each: ReplicaLane) -> list[Content]:
        """Return all figures of a replica in a line, where several catch up at once."""
        if not each.catches_up or len(self._catching_up) < 2:  # noqa: PLR2004 - several
            return []
        lane = each.lane
        facts = (
            ("lag ", lag_text(lane.lag_messages, lane.lag_bytes)),
            ("rate ", rate_text(lane)),
            ("left ", "" if lane.left_s is None else figures.as_duration_range(lane.left_s)),
        )
        known = [(name, value) for name, value in facts if value]
        parts = [((name, "$dim"), f"{value}   ") for name, value in known]
        indent = " " * (pieces_width(self._labels[0][:2]) + len(_GAP))
        return [Content.assemble(indent, *(x for part in parts for x in part))] if known else []

    # ------------------------------------------------------------------ the replicas

    @cached_property
    def _catching_up(self) -> list[ReplicaLane]:
        return [each for each in self.replicas if each.catches_up and each.lane.share is not None]

    @property
    def _cursor_time(self) -> str:
        if self.cursor is None:
            return ""
        return figures.as_time(self.axis.time(self.axis.second(self.cursor)))

    def _figure(self, each: ReplicaLane) -> list[Piece]:
        lane = each.lane
        if self.cursor is not None:
            return [Piece(self._at_cursor(each))]
        if not each.catches_up or lane.share is None:
            return []
        share = figures.as_share(lane.share, approximate=lane.approximate)
        stall = lane.stall
        if stall is not None and stall.alarm:
            role = "stalled" if stall.kind is StallKind.STALLED else "falling-behind"
            return [Piece(share, each.role), Piece(f"  {stall.kind.value}", role, bold=True)]
        if lane.left_s is None:
            return [Piece(share, each.role)]
        left = figures.as_duration_range(lane.left_s)
        if len(self._catching_up) > 1:  # the range is in a line of its own
            left = figures.as_duration(lane.left_s.middle)
        return [Piece(share, each.role), Piece(f"  {left}")]

    def _at_cursor(self, each: ReplicaLane) -> str:
        cell = self._lane_cells[self.replicas.index(each)][self.cursor or 0]
        mark = mark_at(each.lane.history, self.axis.second(self.cursor or 0))
        if mark == Mark.NOTHING:
            return _UNPOLLED.get(cell, _MOMENTS[Mark.NOTHING])
        return _MOMENTS[Mark(mark)] if mark in _MOMENTS else f"{mark}%"

    def _cells_of(self, each: ReplicaLane) -> list[Cell]:
        history, axis = each.lane.history or _NOT_SEEN, self.axis
        spans = [*self._by_run(each.broker), *stalled_span(each.lane.stall)]
        past = timeline_cells(history, axis.past, axis.window, spans=spans)
        cells = [Cell(glyph, piece.role) for piece in past for glyph in piece.text]
        later = axis.place(history.end_s)
        leads = each.lane.role is Role.LEADER
        for place, (cell, well) in enumerate(zip(cells, self._all_in_sync, strict=True)):
            if well and cell in (_BY_JOURNAL, COPYING):  # between the moves of two steps
                cells[place] = SIGNS[Mark.LEADER if leads and place >= later else Mark.IN_SYNC]
        return cells + [self._expected(each, axis.past + n) for n in range(axis.coming)]

    @cached_property
    def _all_in_sync(self) -> list[bool]:
        """Whether polls saw nothing but replicas in sync in each cell, as far as is remembered."""
        recent = self.subject.timeline.recent
        pieces = timeline_cells(recent, self.axis.past, self.axis.window)
        return [glyph in _IN_ISR for piece in pieces for glyph in piece.text]

    def _by_run(self, broker: int) -> list[SpanOf]:
        """Return what the run's journal says of a replica: that it waits, or is copied."""
        of_run, subject = self.subject.of_run, self.subject
        if of_run is None:
            return []
        original = broker in of_run.track.original and bool(of_run.steps_taken)
        spans = [SpanOf(subject.begins_s, None, _BY_JOURNAL if original else _WAITS)]
        for each in of_run.steps_taken:
            begun_s = subject.second_of(each.at)
            over_s = None if each.over_at is None else subject.second_of(each.over_at)
            if broker in each.begun.adding:
                spans.append(SpanOf(begun_s, over_s, COPYING))
            if over_s is not None and broker in (*each.begun.adding, *each.begun.removing):
                stays = (broker in each.begun.adding) is each.reached
                spans.append(SpanOf(over_s, None, _BY_JOURNAL if stays else _BLANK))
        return spans

    @cached_property
    def _leaving(self) -> tuple[frozenset[int], float]:
        """The brokers whose replicas this or the next step drops, and the second it is expected."""
        of_run = self.subject.of_run
        step = None if of_run is None else next(iter(of_run.steps_to_come), None)
        dropped = () if step is None else step.drops
        from_s = self.subject.expected_s or math.inf
        return frozenset((*dropped, *self.subject.timeline.state.removing)), from_s

    def _expected(self, each: ReplicaLane, place: int) -> Cell:
        """Return a cell to come: what the forecast expects of a replica, in a faint stroke."""
        if place == self.axis.past:
            return NOW_LINE
        lane, at_s = each.lane, self.axis.second(place)
        leaving, from_s = self._leaving
        then = at_s > from_s
        if then and each.broker in leaving:
            return _BLANK
        if lane.role is Role.GONE or each.word == TO_COME:  # when a later step begins is unknown
            return _BLANK
        if each.away:
            return UNKNOWN
        if lane.role is Role.ADDING and lane.share is not None and lane.left_s is not None:
            passed = (at_s - self.subject.end_s) / max(lane.left_s.middle, 0.001)
            if passed < 1.0:
                percent = int(100 * (lane.share + (1.0 - lane.share) * passed))
                return mark_cell(percent)._replace(role="dim")
        timeline = self.subject.timeline
        leads = lane.role is Role.LEADER
        if then and timeline.state.leader in leaving:
            leads = each.broker == next(iter(timeline.target), None)
        return SIGNS[Mark.LEADER if leads else Mark.IN_SYNC]._replace(role="dim")

    def _crossed(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells of a lane with the boundaries across it."""
        crossed = list(cells)
        for place, cell in self._crossing.items():
            glyph = crossed[place].glyph
            if glyph not in _NOT_CROSSED and not glyph.isdigit():
                crossed[place] = cell
        if self.cursor is not None:
            crossed[self.cursor] = _CURSOR
        return crossed

    # ------------------------------------------------------------------ the curves

    def _isr(self) -> Line:
        """Draw how many replicas are in sync, in figures where that changes."""
        timeline = self.subject.timeline
        config = self.subject.observation.topic_configs.get(timeline.tp.topic)
        least = 0 if config is None else config.min_insync_replicas
        wanted, counts = len(timeline.original), self._in_sync()
        cells = []
        for before, count in pairwise([None, *counts]):
            role = isr_role(count, least, wanted)
            text = _ISR_GLYPHS.get(role, "─") if count == before else f"{count}"
            cells.append(_BLANK if count is None else Cell(text[0], role))
        state = timeline.state
        now = len(state.isr) if state.described else None
        now = now if self.cursor is None else counts[self.cursor]
        words = figures.UNKNOWN if now is None else f"{now}"
        words += f", min {least}" if least else ""
        role = isr_role(now, least, wanted)
        figure = Piece(words, "" if role == "in-sync" else role, bold=role == "stalled")
        return Line([Piece("ISR size", "dim")], self._whole(cells), [figure])

    def _in_sync(self) -> list[int | None]:
        """Return the replicas in the ISR in each cell, as polls saw, else by the lanes."""
        counts: list[int | None] = []
        lanes = [[cell.glyph for cell in cells[: self.axis.past]] for cells in self._lane_cells]
        for sample, column in zip(self._samples, zip(*lanes, strict=True), strict=True):
            if sample is not None and sample.in_sync is not None:
                counts.append(sample.in_sync)
            else:
                count = sum(glyph in _IN_ISR for glyph in column)
                counts.append(count if count or _OUT in column else None)  # none out: not seen
        return counts

    @cached_property
    def _samples(self) -> list[RateSample | None]:
        axis, cell_s = self.axis, self.axis.window.cell_s
        first_s, within_s = axis.second(0) + cell_s / 2, max(cell_s, _SELDOM_S)
        ends_s = (first_s + cell_s * place for place in range(axis.past))
        return [self._memory.last_before(end_s, within_s) for end_s in ends_s]

    @cached_property
    def _curves(self) -> list[Curve | None]:
        return [self._lag(), self._copied(), self._written()]

    def _lag(self) -> Curve | None:
        timeline = self.subject.timeline
        now = lag_text(timeline.lag_messages, timeline.lag_bytes)
        if not timeline.lag_history and not now:
            return None
        seen_at = min((x.lag_at for x in timeline.catching_up if x.lag_at), default=None)
        if seen_at and (self.subject.observation.at - seen_at).total_seconds() > _SELDOM_S:
            size = None if timeline.lag_messages is not None else timeline.lag_bytes
            now = f"{lag_text(timeline.lag_messages, size)} at {figures.as_time(seen_at)}"
        return Curve("lag", self._lags, highest(self._lags), figures.as_messages, now)

    @cached_property
    def _lags(self) -> list[float | None]:
        return lags(self.subject.timeline.lag_history, self.axis)

    def _copied(self) -> Curve | None:
        values = [None if each is None else each.copied_s for each in self._samples]
        first = first_known(values)
        values[:first] = self._copied_by_lag()[:first]
        rate = self.subject.timeline.rate_bytes_s
        if rate is None and not any(values):
            return None
        now = figures.as_copying(rate)
        if self._bound is not None:
            now = f"{rate_of(rate, self._bound)} per broker"
        top = max(highest(values), self._bound or 0.0)
        return Curve("copied", values, top, figures.as_copying, now, measured_from=first)

    def _copied_by_lag(self) -> list[float | None]:
        """Compute the bytes a second copied from how the lag fell, and from what is written now."""
        timeline = self.subject.timeline
        messages, size = timeline.lag_messages, timeline.lag_bytes
        cells = self.axis.past
        if len(self._catching_up) != 1 or not messages or not size or cells == 1:
            return [None] * cells
        written, cell_s = timeline.inbound_bytes_s or 0.0, self.axis.window.cell_s
        apart = max(1, min(math.ceil(_SMOOTHED_S / cell_s), cells // 2))
        around = zip(self._lags, self._lags[apart:], strict=False)
        rates: list[float | None] = []
        for before, after in around:
            if before is None or after is None:
                rates.append(None)
            elif before == after:  # not read anew, as while its broker is down
                rates.append(0.0)
            else:
                fell_s = (before - after) / (apart * cell_s)
                rates.append(max(0.0, fell_s * size / messages + written))
        half = apart // 2
        return [*rates[:1] * half, *rates, *rates[-1:] * (cells - half - len(rates))]

    def _written(self) -> Curve | None:
        values = [None if each is None else each.written_s for each in self._samples]
        rate = self.subject.timeline.inbound_bytes_s
        if rate is None and not any(values):
            return None
        now, top, unseen = figures.as_rate(rate), highest(values), first_known(values)
        return Curve("written", values, top, figures.as_rate, now, "leader", unseen=unseen)

    def _curve_lines(self, curve: Curve, height: int) -> list[Line]:
        levels = [level(value, curve.top, height) for value in curve.values]
        words = f"{curve.name} peak {curve.text(curve.peak)}" if curve.peak else curve.name
        if curve.peak and curve.top > curve.peak:
            words += f" of {curve.text(curve.top)}"
        label = [Piece(words, "dim")]
        shown = curve.now
        if self.cursor is not None:
            about = "~" if self.cursor < curve.measured_from else ""
            shown = f"{about}{curve.text(curve.values[self.cursor])}"
        blocks, rows = [Cell(glyph, curve.role) for glyph in _BLOCKS], []
        for row in range(height - 1, -1, -1):
            cells = [blocks[min(8, max(0, level - 8 * row))] for level in levels]
            if row == 0:
                began = max(0, min(self.axis.place(self.subject.begins_s), curve.unseen))
                cells[began : curve.unseen] = _unseen(curve.unseen - began)
            first = row == height - 1
            figure = [Piece(shown)] if first else []
            rows.append(Line(label if first else [], self._whole(cells), figure))
        return rows

    def _whole(self, cells: list[Cell]) -> list[Cell]:
        """Return a line that has no forecast of its own, with the boundaries across it."""
        coming = self.axis.coming
        return self._crossed([*cells, *([NOW_LINE, *[_BLANK] * (coming - 1)] if coming else [])])


def _unseen(count: int) -> list[Cell]:
    words = _NOT_MEASURED.center(count) if count > len(_NOT_MEASURED) else UNKNOWN.glyph * count
    return [UNKNOWN._replace(glyph=glyph) for glyph in words]


def _pieces(cells: Sequence[Cell]) -> list[Piece]:
    runs = itertools.groupby(cells, key=attrgetter("role"))
    return [Piece("".join(cell.glyph for cell in run), role) for role, run in runs]
