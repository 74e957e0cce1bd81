"""The cells of a partition's row: signs, words, and the role that colours each of them."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.states import CancelKind, Stage
from ktui.progress.row import MOMENTS, merge_marks
from ktui.progress.timeline import Mark, Slots, Stall, StallKind, Timeline

BARS: Final = "▁▂▃▄▅▆▇█"  # bars for the share caught up, in eighths
ELLIPSIS: Final = "…"
_LEFT_OUT = f" {ELLIPSIS}"
_CELL_S: Final = (
    1.0, 1.125, 1.25, 1.375, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0,
    7.0, 8.0, 9.0,
)  # fmt: skip
"""Seconds of a cell; longer ones are ten times as long, and so on.

Each is at most a sixth more than the one before: what is shown fills six sevenths of a timeline.
"""


class Cell(NamedTuple):
    """A cell of a timeline or a lane; the role is one of `roles.ROLES`."""

    glyph: str
    role: str


SIGNS: Final[Mapping[int, Cell]] = MappingProxyType(
    {
        Mark.NOTHING: Cell(" ", "dim"),
        Mark.WAITING: Cell("┄", "waiting"),
        Mark.IN_SYNC: Cell("━", "in-sync"),
        Mark.LEADER: Cell("═", "leader"),
        Mark.RETIRING: Cell("╌", "retiring"),
        Mark.OUT_OF_SYNC: Cell("░", "out-of-sync"),
        Mark.STALLED: Cell("!", "stalled"),
        Mark.LEADER_MOVED: Cell("★", "leader"),
        Mark.CANCELLED: Cell("×", "cancelled"),  # noqa: RUF001 - the sign that operators see
        Mark.GONE: Cell("·", "dim"),
    }
)
"""The sign and the role of every mark that is not a share."""
UNKNOWN: Final = Cell("?", "dim")  # nobody knows what was
COPYING: Final = Cell("╍", "moving")  # by a journal, which has no shares
BATCH_BEGUN: Final = Cell("▏", "header")
DROPPED: Final = Cell("╎", "retiring")
CANCEL_SIGNS: Final[Mapping[CancelKind, Cell]] = MappingProxyType(
    {
        CancelKind.STOP: SIGNS[Mark.CANCELLED],
        CancelKind.TRIM: SIGNS[Mark.CANCELLED],
        CancelKind.ROLLBACK: Cell("↩", "next-leader"),
    }
)

STAGE_CELLS: Final[Mapping[Stage, Cell]] = MappingProxyType(
    {
        Stage.STALLED: Cell("!", "stalled"),
        Stage.FAILED: Cell("F", "stalled"),
        Stage.BLOCKED: Cell("■", "falling-behind"),
        Stage.HELD_UP: Cell("□", "falling-behind"),
        Stage.BEHIND: Cell("▽", "falling-behind"),
        Stage.FOREIGN: Cell("◇", "foreign"),
        Stage.LEFT_OUT: Cell("◇", "foreign"),
        Stage.CALLED_OFF: Cell("<", "cancelled"),
        Stage.COPYING: Cell("▒", "moving"),
        Stage.READY: Cell("▙", "in-sync"),
        Stage.WAITING: Cell(":", "waiting"),
        Stage.QUEUED: Cell("·", "waiting"),
        Stage.DONE: Cell("█", "in-sync"),
    }
)
"""The sign of a partition of a run, on the map and in the bar of the header."""


class Piece(NamedTuple):
    """A stretch of text and its meaning; the role is one of `roles.ROLES`, or empty for none."""

    text: str
    role: str = ""
    bold: bool = False
    underline: bool = False


class SignAt(NamedTuple):
    """A sign, and the monotonic second at which it stands."""

    at_s: float
    cell: Cell


class SpanOf(NamedTuple):
    """What is known of a span of monotonic seconds besides what polls have seen."""

    from_s: float
    until_s: float | None  # None: until now
    cell: Cell
    healthy_too: bool = False  # drawn also where polls saw nothing but replicas in sync
    over: bool = False  # drawn over whatever polls saw


class Window(NamedTuple):
    """The time that the timelines of all rows show: up to now, in cells of so many seconds."""

    now_s: float
    cell_s: float

    def first(self, width: int) -> int:
        """Return the number of the first of `width` cells, on a grid of absolute time."""
        return math.floor(self.now_s / self.cell_s) - width + 1

    def place(self, at_s: float, width: int) -> int:
        """Return the cell of a moment, which may lie outside of `width` cells."""
        return math.floor(at_s / self.cell_s) - self.first(width)


def cell_seconds(seconds: float, width: int) -> float:
    """Return the least seconds of a cell with which so many cells reach back so far."""
    tens: Iterator[int] = itertools.accumulate(itertools.repeat(10), operator.mul, initial=1)
    cells = max(1, width - 1)  # the newest cell has just begun
    return next(each * ten for ten in tens for each in _CELL_S if each * ten * cells >= seconds)


def mark_cell(mark: int) -> Cell:
    """Return the sign and the role of a mark; a share is a bar, never empty."""
    if mark <= 100:  # noqa: PLR2004 - Mark's own limit for a share in percent
        return Cell(BARS[min(len(BARS) - 1, mark * len(BARS) // 100)], "moving")
    return SIGNS.get(mark, SIGNS[Mark.NOTHING])


_CELLS = tuple(map(mark_cell, range(256)))
_NOTHING: Final = int(Mark.NOTHING)
_LEAST_CUT = 6  # with fewer cells for a topic, its end alone is cut: two ends would say nothing
_ROLE_OF_CELL = attrgetter("role")


def timeline_cells(
    recent: Slots,
    width: int,
    window: Window,
    *,
    older: Sequence[Slots] = (),
    spans: Sequence[SpanOf] = (),
    signs: Sequence[SignAt] = (),
) -> list[Piece]:
    """Draw a window of time, on a grid of absolute time: what happened keeps its cell.

    What polls saw goes before `spans`: `recent`, and before its first slot the worst of `older`.
    `signs` stand over all, later ones over earlier ones.
    """
    if width <= 0:
        return []
    first = window.first(width)
    marks = _sampled(recent, first, width, window.cell_s)
    begins_s = recent.end_s - recent.slot_s * len(recent.marks)
    unseen = min(width, max(0, math.ceil(begins_s / window.cell_s) - first))
    if older and unseen:
        rows = [_sampled(slots, first, unseen, window.cell_s) for slots in older]
        marks[:unseen] = map(_worst, *rows) if len(rows) > 1 else rows[0]
    cells = [_CELLS[mark] for mark in marks]
    for span in spans:
        until = width if span.until_s is None else window.place(span.until_s, width) + 1
        for place in range(max(0, window.place(span.from_s, width)), min(until, width)):
            mark = marks[place]
            hidden = mark == Mark.NOTHING or (span.healthy_too and mark == Mark.IN_SYNC)
            if hidden or span.over:
                cells[place] = span.cell
    for sign in signs:
        put_sign(cells, window.place(sign.at_s, width), sign.cell)
    return _runs(cells)


def _sampled(slots: Slots, first: int, width: int, cell_s: float) -> list[int]:
    """Return the mark of each cell: of a part of a slot, or of several slots."""
    marks, ratio = slots.marks, cell_s / slots.slot_s
    offset = round(slots.end_s / slots.slot_s, 6) - len(marks)  # of the first slot, in slots
    found = [_NOTHING] * width
    seen = range(max(first, int(offset / ratio) - 1), first + width)
    edges = [math.floor(cell * ratio - offset) for cell in range(seen.start - 1, seen.stop + 1)]
    for cell, before, start, after in zip(seen, edges, edges[1:], edges[2:], strict=False):
        if start >= len(marks):
            break
        stop = after if after > start else start + 1
        if stop <= 0:
            continue
        part = marks[max(0, start) : stop]
        if start == before and part[0] in MOMENTS:  # it stands in one cell of its slot
            around = (marks[start + 1 : start + 2], marks[max(0, start - 1) : start])
            part = next((each for each in around if each and each[0] not in MOMENTS), b"")
        if part:
            found[cell - first] = part[0] if len(part) == 1 else reduce(merge_marks, part)
    return found


@lru_cache(4_096)
def _worst(*marks: int) -> int:
    """Return the one of several lanes' marks to show: trouble, else the least share."""
    known = [mark for mark in marks if mark != _NOTHING]
    trouble = [mark for mark in known if mark in (Mark.STALLED, Mark.OUT_OF_SYNC)]
    return max(trouble) if trouble else min(known, default=_NOTHING)


def stalled_span(stall: Stall | None) -> list[SpanOf]:
    """Return the time without headway of a stall: its alarm comes only after a while."""
    if stall is None or stall.kind is not StallKind.STALLED:
        return []
    return [SpanOf(stall.since_s, None, SIGNS[Mark.STALLED], over=True)]


def put_sign(cells: list[Cell], place: int, cell: Cell) -> None:
    """Put a sign at its place; one outside the cells is not shown."""
    if 0 <= place < len(cells):
        cells[place] = cell


def replica_pieces(
    state: PartitionState,
    down: Collection[int] = (),
    leaving: Collection[int] = (),
    coming: Iterable[int] = (),
    to_lead: int | None = None,
) -> list[Piece]:
    """Draw the replicas: the kept, then the added `+`, then the retiring `-`.

    `*` leads, `>` is to lead, `=` is added and in the ISR, `!` is out of the ISR or offline. A
    leader that is `down` leads no more, whatever brokers that have not heard of it say. `leaving`
    are to be removed by a later step, of which Kafka does not know yet; `coming` to be added. Who
    is `to_lead` when all steps are done need not be the first of the target of this one.
    """
    retiring = {*state.removing, *leaving}
    next_ = next(iter(state.target), None) if to_lead is None else to_lead
    order = _in_order(state, retiring)
    pieces = [_replica(broker, state, down, retiring, next_) for broker in order]
    stays = sum(broker in state.adding or broker not in retiring for broker in state.replicas)
    pieces[stays:stays] = (Piece(f"+{broker}", "dim") for broker in coming)
    return [part for piece in pieces for part in (Piece(" "), piece)][1:]


def partition_text(tp: TopicPartition, width: int) -> str:
    """Fit a partition's name; a cut falls into the middle of the topic: names differ at their ends.

    The number always stays.
    """
    topic, number = tp.topic, f"-{tp.partition}"
    room = width - cell_len(number) - 1
    if room < _LEAST_CUT or cell_len(topic) <= room + 1:
        return cut(topic, number, width)
    head = set_cell_size(topic, room // 3)
    tail = topic[-(room - cell_len(head)) :]
    while cell_len(tail) > room - cell_len(head):
        tail = tail[1:]
    return set_cell_size(f"{head}{ELLIPSIS}{tail}{number}", width)


def cut(text: str, tail: str, width: int) -> str:
    """Fit `text` and `tail` into cells: cut the end of `text`, or pad with spaces."""
    if cell_len(text) + cell_len(tail) > width:
        room = max(0, width - cell_len(tail) - 1)
        text = set_cell_size(text, room).rstrip() + ELLIPSIS
    return set_cell_size(text + tail, width)


def cut_pieces(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Fit pieces into cells: cut with an ellipsis, or padded with spaces."""
    spare = width - pieces_width(pieces)
    if spare >= 0:
        return [*pieces, Piece(" " * spare, "rule")] if spare else list(pieces)
    fitted: list[Piece] = []
    room = width - 1
    for piece in pieces:
        text = set_cell_size(piece.text, min(room, cell_len(piece.text)))
        fitted.append(piece._replace(text=text))
        room -= cell_len(text)
        if room <= 0:
            break
    return [*fitted, Piece(ELLIPSIS, "dim")] if width > 0 else []


def cut_sentence(text: str, width: int) -> str:
    """Fit a sentence into cells. Its last parts are left out as a whole, so no figure is cut."""
    if cell_len(text) <= width:
        return text
    room = set_cell_size(text, max(0, width - cell_len(_LEFT_OUT) + 1))
    end = max(map(room.rfind, (", ", "; ", ": ")))
    end = end if 2 * end > width else room.rfind(" ")
    return text[:end] + _LEFT_OUT if end > 0 else cut(text, "", width)


def faded(pieces: Iterable[Piece]) -> list[Piece]:
    """Draw values that are not current: every word and sign, without colours."""
    return [piece._replace(role="dim", bold=False) for piece in pieces]


def pieces_width(pieces: Iterable[Piece]) -> int:
    """Return the number of cells that pieces take."""
    return sum(map(_width, pieces))


def _width(piece: Piece) -> int:
    text = piece.text
    return len(text) if text.isascii() else cell_len(text)


def slowest_share(timeline: Timeline) -> tuple[float | None, bool]:
    """Return the share of the slowest replica being added, and whether it is approximate."""
    known = [lane for lane in timeline.catching_up if lane.share is not None]
    if not known:
        return None, False
    slowest = min(known, key=lambda lane: lane.share or 0.0)
    return slowest.share, slowest.approximate


def _runs(cells: Iterable[Cell]) -> list[Piece]:
    return [
        Piece("".join(cell.glyph for cell in run), role)
        for role, run in groupby(cells, key=_ROLE_OF_CELL)
    ]


def _in_order(state: PartitionState, retiring: Collection[int]) -> Iterator[int]:
    yield from (b for b in state.replicas if b not in state.adding and b not in retiring)
    yield from (b for b in state.replicas if b in state.adding)
    yield from (b for b in state.replicas if b in retiring and b not in state.adding)


def _replica(
    broker: int,
    state: PartitionState,
    down: Collection[int],
    retiring: Collection[int],
    next_: int | None,
) -> Piece:
    adding = broker in state.adding
    dead_leader = broker == state.leader and broker in down
    leads = state.described and broker == state.leader and not dead_leader
    to_lead = state.described and not leads and broker == next_
    in_isr = state.described and broker in state.isr
    away = broker in state.offline or (state.described and not adding and not in_isr)
    away = away or dead_leader
    movement = "+" if adding else "-" if broker in retiring else ""
    after = "!" if away else "=" if adding and in_isr else ""
    roles = (
        (leads, "leader"),
        (away, "out-of-sync"),
        (adding, "moving"),
        (broker in retiring, "retiring"),
        (to_lead, "next-leader"),
        (state.described, "in-sync"),
    )
    role = next((role for applies, role in roles if applies), "waiting")
    signs = ("*" if leads else "", ">" if to_lead else "", movement)
    return Piece(f"{''.join(signs)}{broker}{after}", role, bold=leads, underline=away)
