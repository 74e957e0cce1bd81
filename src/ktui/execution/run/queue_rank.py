"""The order in which the partitions of a run begin."""

from __future__ import annotations

from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.limits import Order
from ktui.pacing.queue import Rank


def is_queued(track: Track) -> bool:
    """Whether a partition waits to begin, or to begin what a cancel asks for."""
    is_cancelled = track.cancel is not None and track.state in (State.ROLLING_BACK, State.STOPPING)
    return not track.under_way and (track.state is State.QUEUED or is_cancelled)


def queue_rank(track: Track, order: Order) -> Rank:
    """Rank a partition as the engine does: cancelled ones first, then by run order (KIP-1335)."""
    later = track.cancel is None
    if order is Order.PLAN:
        return (later, track.number, "", 0)
    size = track.planned.size
    first = {Order.SIZE_DESC: -size, Order.SIZE_ASC: size}.get(order, 0)
    return (later, first, track.tp.topic, track.tp.partition)
