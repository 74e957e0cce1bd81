"""The least time of any run of a plan under its limits, whatever its order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import inf
from typing import Protocol

from ktui.cluster.partition import TopicPartition
from ktui.pacing.decision import WantedPartition
from ktui.pacing.limits import Limits, Shape
from ktui.speed.answer import Bottleneck, Bound, Span
from ktui.speed.broker_pairs import BrokerPairs
from ktui.speed.copies_onto import NOTHING, CopiesOnto


class BrokerRates(Protocol):
    """The rates at which brokers take in copies."""

    def of(self, broker: int) -> float:
        """Return the middle rate of a copy that a broker receives by itself, in bytes a second."""

    def intake_s(self, broker: int, copies: CopiesOnto) -> float:
        """Return the least seconds in which a broker takes in some copies, at its middle rate."""

    def spread(self, broker: int) -> Span:
        """Return a broker's range of rates, as factors of the middle one."""


def least_time(
    wanted: Iterable[WantedPartition], limits: Limits, rates: BrokerRates
) -> Bound | None:
    """Return the highest of the bounds; None where nothing is copied.

    No copy is faster than one by itself, no broker takes in more than its rate, and only so many
    copies go on at a time. A bound of senders holds while leaders stay where they are: in the
    gentle shape without E.
    """
    sums = _Sums(limits, rates)
    for one in wanted:
        sums.add(one)
    return max(sums.bounds(), key=lambda bound: bound.time_s.middle, default=None)


class _Sums:
    """The seconds of copies, one after the other, each at the middle rate of one by itself."""

    def __init__(self, limits: Limits, rates: BrokerRates) -> None:
        self._limits = limits
        self._by_size = limits.by_size
        self._rates = rates
        self._rate = cache(rates.of)
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

    def add(self, one: WantedPartition) -> None:
        """Count a partition's copies."""
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
            leader = now.replicas[0] if now.leader is None else now.leader
            self._all_s += _share(whole_s, least_s, at_once, self._limits.replica_movements)
            most = self._limits.per_leader_at(leader)
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

    @property
    def _replicas_at_once(self) -> int | None:
        """R; shape whole adds all replicas of a partition at once whatever R is."""
        return None if self._limits.shape is Shape.WHOLE else self._limits.replicas

    @property
    def _leaders_stay(self) -> bool:
        return self._limits.shape is Shape.GENTLE and self._limits.extra_replicas is None

    def _goes_in_turn(self, one: WantedPartition, broker: int) -> bool:
        return one.weight >= (self._limits.bytes_per_broker_at(broker) or inf)

    def _take_turn(self, broker: int, size: int, seconds: float) -> None:
        self._in_turn[broker] += size
        self._in_turn_s[broker] += seconds

    def bounds(self) -> Iterator[Bound]:
        """Yield the bound of each bottleneck."""
        if not self._onto:
            return
        limits, kind = self._limits, Bottleneck
        for broker, copies in self._onto.items():
            least_s = self._rates.intake_s(broker, copies.at_most(limits.partitions))
            time_s = _span(least_s, [self._rates.spread(broker)])
            yield Bound(time_s=time_s, bottleneck=kind.RECEIVER, broker=broker, bytes=copies.bytes)
        if self._longest is not None:
            tp, size = self._longest
            time_s = self._of_all(self._longest_s)
            yield Bound(time_s=time_s, bottleneck=kind.PARTITION, partition=tp, bytes=size)
        for broker, size in self._in_turn.items():
            time_s = self._of_all(self._in_turn_s[broker])
            yield Bound(time_s=time_s, bottleneck=kind.BROKER, broker=broker, bytes=size)
        for found in self._pairs.exchanges(max(self._in_turn_s.values(), default=0.0)):
            time_s = self._of_all(found.seconds)
            yield Bound(
                time_s=time_s,
                bottleneck=kind.BROKERS,
                brokers=found.brokers,
                bytes=found.bytes,
            )
        for leader, size in self._from.items() if self._leaders_stay else ():
            if most := limits.per_leader_at(leader):
                time_s = self._of_all(self._from_s[leader] / most)
                yield Bound(time_s=time_s, bottleneck=kind.SENDER, broker=leader, bytes=size)
        if limits.partitions:
            time_s = self._of_all(self._in_places_s / limits.partitions)
            yield Bound(time_s=time_s, bottleneck=kind.PARTITIONS, bytes=self._bytes)
        if limits.replica_movements:
            time_s = self._of_all(self._all_s / limits.replica_movements)
            yield Bound(time_s=time_s, bottleneck=kind.REPLICAS, bytes=self._bytes)

    def _of_all(self, middle_s: float) -> Span:
        return _span(middle_s, [self._rates.spread(broker) for broker in self._onto])


def _share(whole_s: float, least_s: float, at_once: int, most: int | None) -> float:
    """Return the seconds of copies that a partition takes of a limit; alone, all there is."""
    return whole_s if most is None or at_once <= most else most * least_s


def _span(middle_s: float, spreads: Sequence[Span]) -> Span:
    """Return seconds at the fastest, the middle and the slowest of some ranges of rates."""
    fastest = max(spread.high for spread in spreads)
    slowest = min(spread.low for spread in spreads)
    return Span(middle_s / fastest, middle_s, middle_s / slowest)
