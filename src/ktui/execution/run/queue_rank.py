"""The order in which the partitions of a run begin."""

from __future__ import annotations

from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.limits import Order
from ktui.pacing.queue import Precedence, Rank


def is_queued(track: Track) -> bool:
    """Whether a partition waits to begin, or to begin what a cancel asks for."""
    is_cancelled = track.cancel is not None and track.state in (State.ROLLING_BACK, State.STOPPING)
    return not track.under_way and (track.state is State.QUEUED or is_cancelled)


def queue_rank(track: Track, order: Order) -> Rank:
    """Rank a partition as the engine does: cancelled and urgent ones first, then by run order."""
    precedence = _precedence(track)
    if order is Order.PLAN:
        return (precedence, track.number, "", 0)
    size = track.planned.size
    first = {Order.SIZE_DESC: -size, Order.SIZE_ASC: size}.get(order, 0)
    return (precedence, first, track.tp.topic, track.tp.partition)


def _precedence(track: Track) -> Precedence:
    if track.cancel is not None:
        return Precedence.CALLED_OFF
    return Precedence.USUAL if track.urgency is None else Precedence.URGENT
