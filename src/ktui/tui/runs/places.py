"""Where each partition of a run stands in the queue."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from ktui.cluster.partition import TopicPartition
from ktui.execution.states import State
from ktui.execution.track import Track
from ktui.pacing.limits import Order

Rank = tuple[bool, int, str, int]


class Places:
    """The partitions in the order in which they begin, and who of them still waits to begin."""

    def __init__(self, tracks: Iterable[Track], order: Order) -> None:
        ranked = sorted(tracks, key=lambda track: _rank(track, order))
        self.order = order
        self._index = {track.tp: place for place, track in enumerate(ranked)}
        self._gone = [place for place, track in enumerate(ranked) if not _waits(track)]

    def __len__(self) -> int:
        """Count the partitions, whether they wait or not."""
        return len(self._index)

    def take(self, track: Track) -> None:
        """Note where a partition stands now."""
        index = self._index[track.tp]
        at = bisect.bisect_left(self._gone, index)
        known = at < len(self._gone) and self._gone[at] == index
        if known and _waits(track):
            del self._gone[at]
        elif not known and not _waits(track):
            self._gone.insert(at, index)

    def index(self, tp: TopicPartition) -> int:
        """Give a partition's place among all, from 0; it stays while the order does."""
        return self._index[tp]

    def place(self, track: Track) -> int | None:
        """Give how many begin until it does, itself included; None for one that has begun."""
        if not _waits(track):
            return None
        index = self._index[track.tp]
        return index - bisect.bisect_left(self._gone, index) + 1


def _waits(track: Track) -> bool:
    goes_back = track.cancel is not None and track.state in (State.ROLLING_BACK, State.STOPPING)
    return not track.under_way and (track.state is State.QUEUED or goes_back)


def _rank(track: Track, order: Order) -> Rank:
    """Rank as the engine does (KIP-1335, and the orders that are ours), the called off first."""
    later = track.cancel is None
    if order is Order.PLAN:
        return (later, track.number, "", 0)
    size = track.planned.size
    first = {Order.SIZE_DESC: -size, Order.SIZE_ASC: size}.get(order, 0)
    return (later, first, track.tp.topic, track.tp.partition)
