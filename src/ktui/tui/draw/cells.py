"""The cells of a partition's row: signs, words, and the role that colours each of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.states import CancelKind
from ktui.progress.row import RECENT_SLOTS, merge_marks
from ktui.progress.timeline import Mark, Slots, Timeline

BARS: Final = "▁▂▃▄▅▆▇█"  # bars for the share caught up, in eighths
ELLIPSIS: Final = "…"
_LEFT_OUT = f" {ELLIPSIS}"
SPANS: Final = (RECENT_SLOTS, RECENT_SLOTS // 2, RECENT_SLOTS // 5)
"""The slots that a row's timeline may reach back: ten minutes, five, two."""


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
CANCEL_SIGNS: Final[Mapping[CancelKind, Cell]] = MappingProxyType(
    {
        CancelKind.STOP: SIGNS[Mark.CANCELLED],
        CancelKind.TRIM: SIGNS[Mark.CANCELLED],
        CancelKind.ROLLBACK: Cell("↩", "next-leader"),
    }
)


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


class WaitedSpan(NamedTuple):
    """The time for which a partition has waited for its first step, in monotonic seconds."""

    from_s: float
    until_s: float | None = None


def mark_cell(mark: int) -> Cell:
    """Return the sign and the role of a mark; a share is a bar, never empty."""
    if mark <= 100:  # noqa: PLR2004 - Mark's own limit for a share in percent
        return Cell(BARS[min(len(BARS) - 1, mark * len(BARS) // 100)], "moving")
    return SIGNS.get(mark, SIGNS[Mark.NOTHING])


_CELLS = tuple(map(mark_cell, range(256)))
_ROLE_OF_CELL = attrgetter("role")


def timeline_width(room: int, span: int = RECENT_SLOTS) -> int:
    """Return the cells of a timeline in a room; each is a whole number of slots."""
    return span // _slots_a_cell(room, span) if room > 0 else 0


def timeline_cells(
    slots: Slots,
    width: int,
    now_s: float,
    span: int = RECENT_SLOTS,
    *,
    waits: WaitedSpan | None = None,
    sign: SignAt | None = None,
) -> list[Piece]:
    """Draw the last `span` slots up to now, on a grid of absolute time: a mark keeps its cell."""
    if width <= 0:
        return []
    per_cell = _slots_a_cell(width, span)
    last = round(slots.end_s / slots.slot_s) - 1
    now = max(last, math.floor(now_s / slots.slot_s))
    newest = now // per_cell
    first = last - len(slots.marks) + 1
    marks = [
        _cell(slots.marks, (cell * per_cell) - first, per_cell)
        for cell in range(newest - width + 1, newest + 1)
    ]

    def place(at_s: float) -> int:
        return math.floor(at_s / slots.slot_s) // per_cell - (newest - width + 1)

    if waits is not None:
        until = width - 1 if waits.until_s is None else place(waits.until_s)
        _wait(marks, place(waits.from_s), until)
    cells = [_CELLS[mark] for mark in marks]
    if sign is not None:
        put_sign(cells, place(sign.at_s), sign.cell)
    return _runs(cells)


def put_sign(cells: list[Cell], place: int, cell: Cell) -> None:
    """Put a sign at its place; one outside the cells is not shown."""
    if 0 <= place < len(cells):
        cells[place] = cell


def _wait(marks: list[int], first: int, last: int) -> None:
    for cell in range(max(0, first), min(last + 1, len(marks))):
        if marks[cell] in (Mark.NOTHING, Mark.IN_SYNC):
            marks[cell] = Mark.WAITING


def replica_pieces(state: PartitionState, down: Collection[int] = ()) -> list[Piece]:
    """Draw the replicas: the kept, then the added `+`, then the retiring `-`.

    `*` leads, `>` is to lead, `=` is added and in the ISR, `!` is out of the ISR or offline. A
    leader that is `down` leads no more, whatever brokers that have not heard of it say.
    """
    pieces = [_replica(broker, state, down) for broker in _in_order(state)]
    return [part for piece in pieces for part in (Piece(" "), piece)][1:]


def partition_text(tp: TopicPartition, width: int) -> str:
    """Fit a partition's name; a cut falls inside the topic, so the number stays."""
    return cut(tp.topic, f"-{tp.partition}", width)


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
    end = end if end > 0 else room.rfind(" ")
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


def _slots_a_cell(room: int, span: int) -> int:
    return math.ceil(span / max(1, room))


def _cell(marks: bytes, start: int, count: int) -> int:
    part = marks[max(0, start) : max(0, start + count)]
    return reduce(merge_marks, part) if part else int(Mark.NOTHING)


def _runs(cells: Iterable[Cell]) -> list[Piece]:
    return [
        Piece("".join(cell.glyph for cell in run), role)
        for role, run in groupby(cells, key=_ROLE_OF_CELL)
    ]


def _in_order(state: PartitionState) -> Iterator[int]:
    moving = (*state.adding, *state.removing)
    yield from (b for b in state.replicas if b not in moving)
    yield from (b for b in state.replicas if b in state.adding)
    yield from (b for b in state.replicas if b in state.removing and b not in state.adding)


def _replica(broker: int, state: PartitionState, down: Collection[int]) -> Piece:
    adding = broker in state.adding
    dead_leader = broker == state.leader and broker in down
    leads = state.described and broker == state.leader and not dead_leader
    to_lead = state.described and not leads and broker == next(iter(state.target), None)
    in_isr = state.described and broker in state.isr
    away = broker in state.offline or (state.described and not adding and not in_isr)
    away = away or dead_leader
    signs = ("*" if leads else "", ">" if to_lead else "", _movement(broker, state))
    after = "!" if away else "=" if adding and in_isr else ""
    role = _role(broker, state, leads=leads, away=away, to_lead=to_lead)
    return Piece(f"{''.join(signs)}{broker}{after}", role, bold=leads, underline=away)


def _movement(broker: int, state: PartitionState) -> str:
    if broker in state.adding:
        return "+"
    return "-" if broker in state.removing else ""


def _role(broker: int, state: PartitionState, *, leads: bool, away: bool, to_lead: bool) -> str:
    roles = (
        (leads, "leader"),
        (away, "out-of-sync"),
        (broker in state.adding, "moving"),
        (broker in state.removing, "retiring"),
        (to_lead, "next-leader"),
        (state.described, "in-sync"),
    )
    return next((role for applies, role in roles if applies), "waiting")
