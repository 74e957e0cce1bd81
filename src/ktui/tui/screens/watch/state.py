"""A partition's state in the list: its word, the reason for it, and how urgent it is."""

from __future__ import annotations

import enum

from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, StallKind, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, slowest_share
from ktui.tui.screens.watch.words import (
    OF_OTHERS,
    RowContext,
    held_up,
    run_reason,
    run_state,
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
    """Return the stall of somebody else's move, which the state column leaves out."""
    if timeline.stall is None:
        return None
    age = figures.as_age(context.now_s - timeline.stall.since_s)
    what = timeline.stall.detail or f"broker {timeline.stall.broker}: {timeline.stall.cause}"
    return Piece(f"{_other_run(timeline, context)}{what}, stalled {age}", "stalled")


def _other_run(timeline: Timeline, context: RowContext) -> str:
    """Return the name of the other run that moves a partition, before a reason."""
    elsewhere = context.elsewhere(timeline)
    mover = None if context.run is None else context.run.movers.get(timeline.tp)
    mover = mover or (None if elsewhere is None else elsewhere.run)
    return "" if mover is None else f"run {mover}: "


# ------------------------------------------------------------------------- how urgent it is


class Urgency(enum.IntEnum):
    """What needs the operator, the most urgent first: the order of the list by state.

    Trouble comes first, then what moves, then what waits, then what is over.
    """

    OFFLINE = enum.auto()  # nobody can read or write it
    STALLED = enum.auto()  # its move will not end by itself
    # A failed move is over for the run, which goes on without it: until somebody acts, nothing
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
    Phase.STALLED: Urgency.STALLED,
    Phase.MOVING: Urgency.MOVING,
    Phase.SETTLING: Urgency.SETTLING,
    Phase.CHANGED_ELSEWHERE: Urgency.CHANGED_ELSEWHERE,
    Phase.CANCELLED: Urgency.STOPPED,
    Phase.TOPIC_GONE: Urgency.TOPIC_GONE,
    Phase.DONE: Urgency.DONE,
    Phase.SETTLED: Urgency.SETTLED,
}
_OF_RUN = {each: Urgency[each.name] for each in State if each.name in Urgency.__members__} | {
    State.ADDING: Urgency.MOVING,
    State.QUEUED: Urgency.WAITS,
}


def urgency(timeline: Timeline, context: RowContext) -> float:
    """Return the rank by urgency: the lowest needs the operator first."""
    phase, stall, condition = timeline.phase, timeline.stall, context.health(timeline)
    severe = condition.severe and phase is not Phase.TOPIC_GONE
    if severe and condition.offline:
        return Urgency.OFFLINE
    track = context.track(timeline)
    if track is not None:
        return _urgency_in_run(track, timeline, context)
    if severe and phase is not Phase.STALLED:
        return Urgency.UNDER_MIN
    if phase is Phase.MOVING and stall is not None and stall.kind is StallKind.FALLING_BEHIND:
        return Urgency.FALLING_BEHIND
    if condition.unhealthy and context.shows_health(timeline, condition):
        return Urgency.OUT_OF_ISR
    return _OF_PHASE[phase]


def _urgency_in_run(track: Track, timeline: Timeline, context: RowContext) -> float:
    if track.state is State.QUEUED and not track.begun and context.run is not None:
        return Urgency.NOT_BEGUN + context.run.share_of_queue(track.tp)
    if track.step is not None and timeline.phase is Phase.STALLED:
        return Urgency.STALLED
    return _OF_RUN[track.state]
