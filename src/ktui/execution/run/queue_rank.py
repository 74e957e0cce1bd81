"""The order in which the partitions of a run begin."""

from __future__ import annotations

from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.limits import InternalOrder, Limits, Order
from ktui.pacing.queue import Precedence, Rank, first_by, usual_precedence


def is_queued(track: Track) -> bool:
    """Whether a partition waits to begin, or to begin what a cancel asks for."""
    is_cancelled = track.cancel is not None and track.state in (State.ROLLING_BACK, State.STOPPING)
    return not track.under_way and (track.state is State.QUEUED or is_cancelled)


def queue_rank(track: Track, limits: Limits) -> Rank:
    """Rank a partition as the engine does: cancelled and urgent ones first, then by run order."""
    precedence = _precedence(track, limits.internal)
    if limits.order is Order.PLAN:
        return (precedence, track.number, "", 0)
    first = first_by(limits.order, size=track.planned.size, ahead=track.planned.ahead)
    return (precedence, first, track.tp.topic, track.tp.partition)


def _precedence(track: Track, internal: InternalOrder) -> Precedence:
    if track.cancel is not None:
        return Precedence.CALLED_OFF
    if track.urgency is not None:
        return Precedence.URGENT
    return usual_precedence(track.tp.topic, internal)
