"""Bundles: of very many partitions some stand for the others, so that a simulation is quick.

The largest partitions are simulated one by one, for the time of the last ones depends on them. The
others are bundled by the brokers that they go to, so that each broker keeps what it receives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.speed.copies import NONE_BESIDE, CopiesOfBothEnds, Pair

_MOST = 400
"""The most partitions and bundles simulated, of those in flight and of those that wait."""


class Bundle(NamedTuple):
    """A partition, and others onto about the same brokers that it stands for."""

    track: Track
    size: float
    """The mean size of all of them, in bytes."""
    others: Sequence[Track] = ()


def bundled(tracks: Sequence[Track]) -> list[Bundle]:
    """Return partitions in their order; of more than `_MOST`, the smaller ones in bundles."""
    if len(tracks) <= _MOST:
        return [Bundle(track, track.planned.size) for track in tracks]
    numbers = range(len(tracks))
    alone = set(nlargest(_MOST // 4, numbers, key=lambda n: tracks[n].planned.size))
    rest = sorted((n for n in numbers if n not in alone), key=lambda n: _onto(tracks[n]))
    parts = _MOST - len(alone)
    edges = [part * len(rest) // parts for part in range(parts + 1)]
    found = {n: Bundle(tracks[n], tracks[n].planned.size) for n in alone}
    for begin, end in pairwise(edges):
        of = rest[begin:end]
        mean = sum(tracks[n].planned.size for n in of) / len(of)
        middle = of[len(of) // 2]
        found[middle] = Bundle(tracks[middle], mean, [tracks[n] for n in of if n != middle])
    return [found[n] for n in sorted(found)]


def _onto(track: Track) -> tuple[Sequence[int], Sequence[int]]:
    """Return the brokers that receive a partition, and after these all of its target."""
    planned = track.planned
    return sorted({*planned.target} - {*planned.original}), planned.target


def go_together(tracks: Sequence[Track], limits: Limits) -> bool:
    """Whether the partitions of a bundle are copied at the same time, not one after the other.

    They are where no limit keeps half of all that wait from going on at a time.
    """
    if limits.per_broker or limits.per_leader or limits.bytes_per_broker or limits.brokers:
        return False
    of_bytes, size = limits.bytes_in_flight, sum(track.planned.size for track in tracks)
    large = None if of_bytes is None or not size else of_bytes * len(tracks) / size
    at_once = (limits.partitions, limits.replica_movements, limits.cuts_per_minute, large)
    return all(most is None or 2 * most >= len(tracks) for most in at_once)


def by_leader(tracks: Iterable[Track]) -> Counter[int]:
    """Count partitions by leader as planned; one without has its first replica instead."""
    planned = (track.planned for track in tracks)
    return Counter(each.original[0] if each.leader is None else each.leader for each in planned)


class BundledCopies:
    """Copies of partitions that may stand for others.

    Args:
        copying: the copies in flight.
        together: those for which some stand that are copied at the same time, by leader.
        in_turn: for how many those stand that are copied one after the other.
    """

    def __init__(
        self,
        copying: CopiesOfBothEnds,
        together: Mapping[TopicPartition, Counter[int]],
        in_turn: Mapping[TopicPartition, int],
    ) -> None:
        self._copying = copying
        self._together = together
        self._in_turn = in_turn

    @property
    def next_end_s(self) -> float:
        """The second at which the next copy ends if none is added; infinity without copies."""
        return self._copying.next_end_s

    def add(self, tp: TopicPartition, pair: Pair, size: float, at_s: float) -> None:
        """Begin to copy a replica of each partition that this one stands for.

        Args:
            tp: the partition.
            pair: its leader, and the broker that copies from it.
            size: bytes; those of all that are copied at the same time.
            at_s: the second.
        """
        beside = self._together.get(tp, NONE_BESIDE)
        one = size / (1 + sum(beside.values())) * self._in_turn.get(tp, 1)
        self._copying.add(tp, pair, one, at_s, beside)

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Return copies that ended by then: second, partition, broker; each copy once."""
        return self._copying.ended(by_s)
