"""A partition's state in the list: its word, the reason for it, and how urgent it is."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, StallKind, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, pieces_width, slowest_share
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.watch.words import (
    OF_OTHERS,
    RowContext,
    held_up,
    run_reason,
    run_state,
    run_waits,
    state_piece,
)

_ENDED = {
    Phase.DONE: ("done", "in-sync"),
    Phase.CANCELLED: ("cancelled", "cancelled"),
    Phase.CHANGED_ELSEWHERE: ("changed elsewhere", "foreign"),
    Phase.TOPIC_GONE: ("topic gone", "dim"),
    Phase.SETTLING: ("settling", "waiting"),
}


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
            words = f"{_other_run(timeline, context) or 'foreign: '}{words}"
        role = state_cell(timeline, context).role if stall.alarm else "waiting"
        return Piece(words, role)
    if condition.severe and timeline.phase is not Phase.TOPIC_GONE:
        return Piece(f"{condition.word}: {condition.wrong}", condition.role)
    return None


def _foreign_stall(timeline: Timeline, context: RowContext) -> Piece | None:
    if timeline.stall is None:
        return None
    age = figures.as_age(context.now_s - timeline.stall.since_s)
    what = timeline.stall.detail or f"broker {timeline.stall.broker}: {timeline.stall.cause}"
    return Piece(f"{_other_run(timeline, context)}{what}, stalled {age}", "stalled")


def _other_run(timeline: Timeline, context: RowContext) -> str:
    elsewhere = context.elsewhere(timeline)
    mover = None if context.run is None else context.run.movers.get(timeline.tp)
    mover = mover or (None if elsewhere is None else elsewhere.run)
    return "" if mover is None else f"run {mover}: "


class RowUrgency(enum.IntEnum):
    """What needs the operator, the most urgent first: the order of the list by state.

    Trouble comes first, then what moves, then what waits, then what is over.
    """

    OFFLINE = enum.auto()  # nobody can read or write it
    STALLED = enum.auto()  # its move will not end by itself
    # a failed move is over for the run, which goes on without it: until somebody acts, nothing
    # mends it. Under min ISR, producers wait, but a copy that catches up ends that by itself.
    FAILED = enum.auto()
    UNDER_MIN = enum.auto()
    # The run cannot go on here, and producers notice nothing; still it needs somebody, where one
    # that is merely behind may catch up.
    BLOCKED = enum.auto()
    REFUSED = enum.auto()  # the run asks the controller again by itself
    FALLING_BEHIND = enum.auto()
    OUT_OF_ISR = enum.auto()  # a replica less, with no move to blame
    STOPPING = enum.auto()  # what an operator has asked for is watched until it is over
    ROLLING_BACK = enum.auto()
    MOVING = enum.auto()
    DROPPING = enum.auto()
    ELECTING = enum.auto()
    READY = enum.auto()
    FOREIGN = enum.auto()
    WAITS = enum.auto()  # between two steps
    NOT_BEGUN = enum.auto()  # and less than the next rank with its place in the queue
    SETTLING = enum.auto()
    CHANGED_ELSEWHERE = enum.auto()
    STOPPED = enum.auto()
    ROLLED_BACK = enum.auto()
    TOPIC_GONE = enum.auto()
    DONE = enum.auto()
    SETTLED = enum.auto()


_OF_PHASE = {
    Phase.STALLED: RowUrgency.STALLED,
    Phase.MOVING: RowUrgency.MOVING,
    Phase.SETTLING: RowUrgency.SETTLING,
    Phase.CHANGED_ELSEWHERE: RowUrgency.CHANGED_ELSEWHERE,
    Phase.CANCELLED: RowUrgency.STOPPED,
    Phase.TOPIC_GONE: RowUrgency.TOPIC_GONE,
    Phase.DONE: RowUrgency.DONE,
    Phase.SETTLED: RowUrgency.SETTLED,
}
_OF_RUN = {each: RowUrgency[each.name] for each in State if each.name in RowUrgency.__members__} | {
    State.ADDING: RowUrgency.MOVING,
    State.QUEUED: RowUrgency.WAITS,
}


def urgency(timeline: Timeline, context: RowContext) -> float:
    """Return the rank by urgency: the lowest needs the operator first."""
    phase, stall, condition = timeline.phase, timeline.stall, context.health(timeline)
    severe = condition.severe and phase is not Phase.TOPIC_GONE
    if severe and condition.offline:
        return RowUrgency.OFFLINE
    track = context.track(timeline)
    if track is not None:
        return _urgency_in_run(track, timeline, context)
    if severe and phase is not Phase.STALLED:
        return RowUrgency.UNDER_MIN
    if phase is Phase.MOVING and stall is not None and stall.kind is StallKind.FALLING_BEHIND:
        return RowUrgency.FALLING_BEHIND
    if condition.unhealthy and context.shows_health(timeline, condition):
        return RowUrgency.OUT_OF_ISR
    return _OF_PHASE[phase]


def _urgency_in_run(track: Track, timeline: Timeline, context: RowContext) -> float:
    if track.state is State.QUEUED and not track.begun and context.run is not None:
        return RowUrgency.NOT_BEGUN + context.run.share_of_queue(track.tp)
    if track.step is not None and timeline.phase is Phase.STALLED:
        return RowUrgency.STALLED
    return _OF_RUN[track.state]


FOLDED_FROM = 6  # partitions from which folding them gains room
_NAMED = 2
_DOT = (Piece(" "), Piece("· ", "dim"))


class FoldKind(enum.Enum):
    """The partitions that one line stands for."""

    BLOCKED = enum.auto()
    QUEUED = enum.auto()
    DONE = enum.auto()


NOTHING_CHOSEN: Mapping[FoldKind, bool] = MappingProxyType({})


class Fold(NamedTuple):
    """Which partitions of the run are folded."""

    queued: bool = False
    done: bool = False
    blocked: str = ""

    def hides(self, timeline: Timeline, context: RowContext) -> bool:
        """Return whether a partition has no row of its own; one in trouble always has one."""
        track = context.track(timeline)
        if track is None or context.run is None or context.health(timeline).unhealthy:
            return False
        if self.done and track.state is State.DONE:
            return True
        if track.begun or track.tp in context.run.run.pauses.partitions:
            return False
        if track.state is State.BLOCKED:
            return bool(self.blocked) and track.reason == self.blocked
        return self.queued and track.state is State.QUEUED

    @property
    def kinds(self) -> list[FoldKind]:
        folded = {
            FoldKind.BLOCKED: bool(self.blocked),
            FoldKind.QUEUED: self.queued,
            FoldKind.DONE: self.done,
        }
        return [kind for kind, is_folded in folded.items() if is_folded]


def kind_of(timeline: Timeline, context: RowContext) -> FoldKind | None:
    """Return the line that may stand for a partition; None for one that always has a row."""
    if Fold(queued=True).hides(timeline, context):
        return FoldKind.QUEUED
    reason = "" if context.run is None else context.run.main_block_reason
    if Fold(blocked=reason).hides(timeline, context):
        return FoldKind.BLOCKED
    return FoldKind.DONE if Fold(done=True).hides(timeline, context) else None


def fold_of(rows: RunRows, room: int = 0, chosen: Mapping[FoldKind, bool] = NOTHING_CHOSEN) -> Fold:
    """Fold what is many and has no room, as long as the run goes on and something else is seen.

    `room` is the rows that the list can show: with enough of it, the done have rows, then the
    queued. The blocked stay together, as their line says why, and they have no timelines yet.
    What the operator has chosen to fold, or not to, is as chosen.
    """
    whole, reason = len(rows.run.tracks), rows.main_block_reason
    counts = {
        FoldKind.BLOCKED: rows.blocked(reason),
        FoldKind.DONE: 0 if rows.run.ended else rows.run.counts[State.DONE],
        FoldKind.QUEUED: rows.queued,
    }
    many = {kind: count for kind, count in counts.items() if FOLDED_FROM <= count < whole}
    room -= whole - sum(many.values()) + len(many)
    folded = set()
    for kind, count in many.items():
        if chosen.get(kind, kind is FoldKind.BLOCKED or count - 1 > room):
            folded.add(kind)
        else:
            room -= count - 1
    return Fold(
        blocked=reason if FoldKind.BLOCKED in folded else "",
        queued=FoldKind.QUEUED in folded,
        done=FoldKind.DONE in folded,
    )


class FoldLine(NamedTuple):
    """The line for partitions that are folded; the last of its parts may be left out."""

    kind: FoldKind
    parts: tuple[tuple[Piece, ...], ...]

    def pieces(self, width: int) -> list[Piece]:
        parts = list(self.parts)
        while len(parts) > 1 and sum(map(pieces_width, parts)) > width:
            parts.pop()
        return cut_pieces([piece for part in parts for piece in part], width)


def fold_lines(fold: Fold, rows: RunRows, key: str) -> list[FoldLine]:
    """Make a line for each kind that is folded, with the key that unfolds all, if any."""
    lines = []
    if fold.blocked:
        lines.append(FoldLine(FoldKind.BLOCKED, tuple(_blocked(fold.blocked, rows))))
    if fold.queued:
        lines.append(FoldLine(FoldKind.QUEUED, tuple(_queued(rows))))
    if fold.done:
        done = (
            Piece("✓ ", "in-sync"),
            Piece("done "),
            Piece(f"{rows.run.counts[State.DONE]:,}", bold=True),
        )
        lines.append(FoldLine(FoldKind.DONE, (done,)))
    if lines and key:
        words = (Piece(key, "moving", bold=True), Piece(" "), Piece("shows the rows", "dim"))
        lines[0] = lines[0]._replace(parts=(*lines[0].parts, (Piece("   "), *words)))
    return lines


def _blocked(reason: str, rows: RunRows) -> list[tuple[Piece, ...]]:
    count = Piece(f"{rows.blocked(reason):,}", "falling-behind", bold=True)
    return [
        (Piece("▸ ", "falling-behind"), Piece("blocked ", "falling-behind"), count),
        (*_DOT, Piece(reason, "falling-behind")),
    ]


def _queued(rows: RunRows) -> list[tuple[Piece, ...]]:
    parts: list[tuple[Piece, ...]] = [
        (Piece("▸ ", "moving"), Piece("queued "), Piece(f"{rows.queued:,}", bold=True))
    ]
    first = rows.next_to_begin(_NAMED)
    waits = run_waits(first[0], rows) if first else None
    if waits is not None:
        parts.append((*_DOT, Piece(waits.short, waits.role)))
    for number, track in enumerate(first):
        before = (Piece(", "),) if number else (*_DOT, Piece("next: ", "dim"))
        parts.append((*before, Piece(str(track.tp))))
    return parts
