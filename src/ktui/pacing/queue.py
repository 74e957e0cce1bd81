"""Who waits to begin, in order, so that finding the next costs nothing of those who wait."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Collection, Iterator

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.pacing.situation import Step

Rank = tuple[bool, int, str, int]
"""Where a partition stands: who goes first, by size or place in the plan, by topic and number."""

QueuePlace = tuple[Rank, TopicPartition]

_FEW = 64
"""So many are put into a list or taken out one by one; more, and it is sorted or written anew."""


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What a step asks of the limits. Steps that ask the same fit, or do not, together."""

    moves_leader: bool
    urgent: bool
    adds: int
    brokers: Brokers = ()
    """Those that it adds, sorted; empty where no limit asks."""

    @property
    def less(self) -> Demand:
        """The same with one broker less: where that does not fit, this does not either."""
        return Demand(self.moves_leader, self.urgent, self.adds, self.brokers[:-1])

    @staticmethod
    def of(step: Step, *, by_broker: bool) -> Demand:
        """Tell what a step asks for.

        Args:
            step: the step.
            by_broker: whether there is a limit on each broker.
        """
        brokers = tuple(sorted(step.adds)) if by_broker else ()
        return Demand(step.moves_leader, step.urgent, len(step.adds), brokers)


class Queue:
    """Partitions in order, kept apart by what their first step asks for."""

    def __init__(self) -> None:
        self._places: dict[TopicPartition, tuple[Demand, Rank]] = {}
        self._order: list[QueuePlace] = []
        self._kinds: dict[Demand, list[QueuePlace]] = {}
        self._new: dict[Demand, list[QueuePlace]] = {}
        """Those who came since anybody asked: put into their places together."""
        self._tree: dict[Demand | None, dict[Demand, None]] = {}
        """The kinds, each below the same with one broker less, so that full brokers are skipped."""

    def __len__(self) -> int:
        """Count who waits."""
        return len(self._places)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether a partition waits."""
        return tp in self._places

    def put(self, tp: TopicPartition, rank: Rank, demand: Demand) -> None:
        """Let a partition wait at its place; it moves if it waits already."""
        stood = self._places.get(tp)
        if stood == (demand, rank):
            return
        if stood is not None:
            self.take([tp])
        self._places[tp] = (demand, rank)
        if demand not in self._kinds:
            self._kinds[demand] = []
            self._grow(demand)
        self._new.setdefault(demand, []).append((rank, tp))

    def take(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions out, whichever of them wait."""
        gone: dict[Demand, list[QueuePlace]] = {}
        for tp in partitions:
            if tp in self._places:
                demand, rank = self._places.pop(tp)
                gone.setdefault(demand, []).append((rank, tp))
        if gone:
            self._settle()
        self._order = _without(self._order, [place for places in gone.values() for place in places])
        for demand, places in gone.items():
            left = _without(self._kinds[demand], places)
            if left:
                self._kinds[demand] = left
            else:
                del self._kinds[demand]
                self._prune(demand)

    def first(self, count: int) -> list[TopicPartition]:
        """Give the first who wait, whatever their steps ask."""
        self._settle()
        return [tp for _, tp in self._order[:count]]

    def walk(self, fits: Callable[[Demand], bool]) -> Iterator[TopicPartition]:
        """Go through those who fit, in order.

        Whoever does not fit is passed over with all who ask for the same, once for the whole walk:
        `fits` may come to say no as it goes on, never yes again.
        """
        self._settle()
        kinds = sorted((self._kinds[demand][0], n, demand) for n, demand in self._fitting(fits))
        return self._merged(kinds, fits)

    def _settle(self) -> None:
        """Give those who came their places."""
        if self._new:
            _insert(self._order, [place for places in self._new.values() for place in places])
            for demand, places in self._new.items():
                _insert(self._kinds[demand], places)
            self._new = {}

    def _fitting(self, fits: Callable[[Demand], bool]) -> Iterator[tuple[int, Demand]]:
        """Give the kinds that fit, numbered."""
        number = 0
        branches = [*self._tree.get(None, ())]
        while branches:
            demand = branches.pop()
            if fits(demand):
                branches += self._tree.get(demand, ())
                if demand in self._kinds:
                    number += 1
                    yield number, demand

    def _grow(self, demand: Demand) -> None:
        above = demand.less if demand.brokers else None
        beside = self._tree.setdefault(above, {})
        beside[demand] = None
        if above is not None and len(beside) == 1:
            self._grow(above)

    def _prune(self, demand: Demand) -> None:
        above = demand.less if demand.brokers else None
        beside = self._tree[above]
        del beside[demand]
        if not beside:
            del self._tree[above]
            if above is not None:
                self._prune(above)

    def _merged(
        self, heads: list[tuple[QueuePlace, int, Demand]], fits: Callable[[Demand], bool]
    ) -> Iterator[TopicPartition]:
        """Merge the kinds by rank; `heads` is a heap: it comes sorted."""
        reached = dict.fromkeys((demand for _, _, demand in heads), 0)
        while heads:
            (_, tp), number, demand = heads[0]
            if not fits(demand):
                heapq.heappop(heads)
                continue
            yield tp
            reached[demand] += 1
            places = self._kinds[demand]
            if reached[demand] < len(places):
                heapq.heapreplace(heads, (places[reached[demand]], number, demand))
            else:
                heapq.heappop(heads)


def _insert(places: list[QueuePlace], new: list[QueuePlace]) -> None:
    if len(new) > _FEW:
        places += new
        places.sort()
        return
    for place in new:
        bisect.insort(places, place)


def _without(places: list[QueuePlace], gone: list[QueuePlace]) -> list[QueuePlace]:
    if len(gone) > _FEW:
        leaving = set(gone)
        return [place for place in places if place not in leaving]
    for place in gone:
        del places[bisect.bisect_left(places, place)]
    return places
