"""The least time of any run of a plan under its limits, whatever its order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, combinations
from math import inf

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits, Shape
from ktui.pacing.situation import WantedPartition
from ktui.speed.answer import Bottleneck, Bound, Span
from ktui.speed.capacity import Rates
from ktui.speed.copies import HALF_AT, leader_or_first, speedup

_TRIPLE = 3


class CopiesOnto(msgspec.Struct, frozen=True, gc=False):
    """The copies that a broker receives, of which each partition has at most one."""

    bytes: int = 0
    longest: int = 0
    at_once: int = 0

    def with_another(self, size: int) -> CopiesOnto:
        return CopiesOnto(self.bytes + size, max(self.longest, size), self.at_once + 1)

    def at_most(self, partitions: int | None) -> CopiesOnto:
        """Return these where so many partitions are under way at a time; None for any number."""
        at_once = min(self.at_once, partitions or self.at_once)
        return msgspec.structs.replace(self, at_once=at_once)


NOTHING = CopiesOnto()


def least_alone(copies: CopiesOnto) -> float:
    """Return the bytes that one copy by itself receives in the least time that some copies take.

    In each moment, what n copies receive and h times what the largest of them receives are together
    at most 1 + h times as much as one copy by itself would.
    """
    at_once = copies.bytes / speedup(copies.at_once)
    return max(at_once, (copies.bytes + HALF_AT * copies.longest) / (1.0 + HALF_AT))


def least_time(wanted: Iterable[WantedPartition], limits: Limits, rates: Rates) -> Bound | None:
    """Return the highest of the bounds; None where nothing is copied.

    No copy is faster than one by itself, no broker takes in more than its rate, and only so many
    copies go on at a time. A bound of senders holds while leaders stay: gentle without E.
    """
    sums = _Sums(limits, rates)
    for one in wanted:
        sums.add(one)
    return max(sums.bounds(), key=lambda bound: bound.time_s.middle, default=None)


class _Sums:
    """The seconds of copies, one after the other, each at the middle rate of one by itself."""

    def __init__(self, limits: Limits, rates: Rates) -> None:
        self._limits = limits
        self._by_size = limits.by_size
        # shape whole adds all replicas of a partition at once whatever R is
        self._replicas_at_once = None if limits.shape is Shape.WHOLE else limits.replicas
        self._leaders_stay = limits.shape is Shape.GENTLE and limits.extra_replicas is None
        self._rates = rates
        self._rate = cache(lambda broker: rates.takes(broker, 1))
        self._onto: dict[int, CopiesOnto] = {}
        self._from: Counter[int] = Counter()
        """Bytes copied from leaders, and below the seconds of that."""
        self._from_s: defaultdict[int, float] = defaultdict(float)
        self._in_turn: Counter[int] = Counter()
        """Bytes of steps of which W lets a broker take part in one at a time; and the seconds."""
        self._in_turn_s: defaultdict[int, float] = defaultdict(float)
        self._pairs = BrokerPairs()
        self._bytes = 0
        self._all_s = self._in_places_s = self._longest_s = 0.0
        self._longest: tuple[TopicPartition, int] | None = None
        self._all: Span | None = None

    def add(self, one: WantedPartition) -> None:
        now, size = one.situation, one.size
        receivers = [broker for broker in now.target if broker not in now.replicas]
        if not receivers or not size:
            return
        for broker in receivers:
            self._onto[broker] = self._onto.get(broker, NOTHING).with_another(size)
        size_s = [size / self._rate(broker) for broker in receivers]
        whole, whole_s = size * len(receivers), sum(size_s)
        self._bytes += whole
        least_s, at_once = max(size_s), len(receivers)
        if len(now.replicas) >= now.min_isr:  # else a step may exceed R, M and S
            at_once = min(self._replicas_at_once or at_once, at_once)
            least_s = max(least_s, whole_s / at_once)
            leader = leader_or_first(now.leader, now.replicas)
            self._all_s += _share(whole_s, least_s, at_once, self._limits.replica_movements)
            most = self._limits.most_at("per_leader", leader)
            self._from_s[leader] += _share(whole_s, least_s, at_once, most)
            self._from[leader] += whole
            if self._by_size:
                sends = self._leaders_stay and self._goes_in_turn(one, leader)
                if sends:
                    self._take_turn(leader, whole, least_s)
                for broker, seconds in zip(receivers, size_s, strict=True):
                    if self._goes_in_turn(one, broker):
                        self._take_turn(broker, size, seconds)
                        if sends:
                            self._pairs.add(leader, broker, size, seconds / at_once)
        self._in_places_s += least_s
        if least_s > self._longest_s:
            self._longest_s, self._longest = least_s, (one.tp, whole)

    def _goes_in_turn(self, one: WantedPartition, broker: int) -> bool:
        return one.weight >= (self._limits.most_at("bytes_per_broker", broker) or inf)

    def _take_turn(self, broker: int, size: int, seconds: float) -> None:
        self._in_turn[broker] += size
        self._in_turn_s[broker] += seconds

    def bounds(self) -> Iterator[Bound]:
        if not self._onto:
            return
        limits, kind = self._limits, Bottleneck
        for broker, copies in self._onto.items():
            least_s = self._intake_s(broker, copies.at_most(limits.partitions))
            time_s = self._rates.time_s(least_s, broker)
            yield Bound(time_s=time_s, bottleneck=kind.RECEIVER, broker=broker, bytes=copies.bytes)
        if self._longest is not None:
            tp, size = self._longest
            time_s = self._of_all(self._longest_s)
            yield Bound(time_s=time_s, bottleneck=kind.PARTITION, partition=tp, bytes=size)
        for broker, size in self._in_turn.items():
            time_s = self._of_all(self._in_turn_s[broker])
            yield Bound(time_s=time_s, bottleneck=kind.BROKER, broker=broker, bytes=size)
        above_s = max(self._in_turn_s.values(), default=0.0)
        for brokers, seconds, size in self._pairs.exchanges(above_s):
            time_s = self._of_all(seconds)
            yield Bound(time_s=time_s, bottleneck=kind.BROKERS, brokers=brokers, bytes=size)
        for leader, size in self._from.items() if self._leaders_stay else ():
            if most := limits.most_at("per_leader", leader):
                time_s = self._of_all(self._from_s[leader] / most)
                yield Bound(time_s=time_s, bottleneck=kind.SENDER, broker=leader, bytes=size)
        if limits.partitions:
            time_s = self._of_all(self._in_places_s / limits.partitions)
            yield Bound(time_s=time_s, bottleneck=kind.PARTITIONS, bytes=self._bytes)
        if limits.replica_movements:
            time_s = self._of_all(self._all_s / limits.replica_movements)
            yield Bound(time_s=time_s, bottleneck=kind.REPLICAS, bytes=self._bytes)

    def _intake_s(self, broker: int, copies: CopiesOnto) -> float:
        if self._rates.is_free(broker):
            return least_alone(copies) / self._rate(broker)
        return copies.bytes / self._rates.takes(broker, copies.at_once)

    def _of_all(self, middle_s: float) -> Span:
        """Return seconds at the fastest, the middle and the slowest of all ranges of rates."""
        if self._all is None:
            spreads = [self._rates.spread(broker) for broker in self._onto]
            slowest = min(spread.low for spread in spreads)
            self._all = Span(slowest, 1.0, max(spread.high for spread in spreads))
        return Span(middle_s / self._all.high, middle_s, middle_s / self._all.low)


def _share(whole_s: float, least_s: float, at_once: int, most: int | None) -> float:
    """Return the seconds of copies that a partition takes of a limit; alone, all there is."""
    return whole_s if most is None or at_once <= most else most * least_s


class BrokerPairs:
    """Add up what each pair of brokers has to copy in turn.

    Two copies that share a broker do not overlap. So of an odd number n of brokers at most (n - 1)
    / 2 pairs copy at a time: what three copy among each other goes one by one.
    """

    def __init__(self) -> None:
        self._seconds: defaultdict[frozenset[int], float] = defaultdict(float)
        self._bytes: Counter[frozenset[int]] = Counter()

    def add(self, sender: int, receiver: int, size: int, seconds: float) -> None:
        """Count a copy that no other of the two brokers overlaps for so many seconds."""
        pair = frozenset((sender, receiver))
        self._seconds[pair] += seconds
        self._bytes[pair] += size

    def exchanges(self, above_s: float) -> Iterator[tuple[tuple[int, ...], float, int]]:
        """Yield what takes longer than `above_s`: brokers, their least seconds, and bytes.

        Of three brokers, and of all, if they are odd.
        """
        everyone = tuple(sorted(set(chain.from_iterable(self._seconds))))
        chosen = self._triples(above_s)
        if len(everyone) > _TRIPLE and len(everyone) % 2:
            chosen = chain(chosen, [everyone])
        for brokers in chosen:
            pairs = [frozenset(pair) for pair in combinations(brokers, 2)]
            seconds = sum(self._seconds.get(pair, 0.0) for pair in pairs) / (len(brokers) // 2)
            if seconds > above_s:
                yield brokers, seconds, sum(self._bytes[pair] for pair in pairs)

    def _triples(self, above_s: float) -> Iterator[tuple[int, ...]]:
        """Yield the triples that may take longer: one pair of them has a third or more of it."""
        neighbours = defaultdict[int, set[int]](set)
        for one, other in map(sorted, self._seconds):
            neighbours[one].add(other)
            neighbours[other].add(one)
        busy = [pair for pair, seconds in self._seconds.items() if _TRIPLE * seconds > above_s]
        triples = {
            frozenset((*pair, third))
            for pair in busy
            for third in set().union(*(neighbours[broker] for broker in pair)) - pair
        }
        yield from sorted(tuple(sorted(triple)) for triple in triples)
