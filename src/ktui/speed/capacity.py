"""The rates at which each broker receives, learned from a run's own copies.

A rate is bytes by busy time: the seconds in which a broker had something to copy, also those in
which nothing came. So the gulps of a throttle, the fetches that a leader lets wait and the seconds
until a new copy begins are all in it, as they will be for the copies to come.

Without a throttle the busier of its two brokers limits a copy. So ktui also learns how fast copies
would have been by themselves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ktui.insights.curve import RateCurve
from ktui.planning.throttle_rates import ThrottleRates
from ktui.speed.both_ends import CopyLoad, speedup
from ktui.speed.copy_rates import ASSUMED
from ktui.speed.fair_share import Pair

MANY = 100
"""Copies at once with which a broker takes in about as much as it can."""
_SPAN_S = 120.0
"""Busy seconds after which what was copied counts for a third."""
_DOUBT_S = 5.0
"""The rate that is expected of a broker counts as so many seconds in which it was seen."""
_BINDS = 0.6
"""A broker that receives this share of its throttle is limited by it: it could receive more."""
USUAL_SHARE = 0.6
"""The share of a throttle that copies are expected to get; real ones got 0.5 to 0.8 of it."""
_ENOUGH_S = 4.0
"""Busy seconds of all brokers together from which on a run has shown how fast it copies."""


class _Seen(msgspec.Struct):
    """What a broker has received under one throttle; older seconds count less."""

    throttle: int | None
    size: float
    """Bytes."""
    alone: float
    """Bytes that a single copy would have received in that time."""
    seconds: float

    @property
    def bytes_s(self) -> float:
        return self.size / self.seconds

    @property
    def bound(self) -> bool:
        """Whether the throttle limits the broker."""
        return self.throttle is not None and self.bytes_s >= _BINDS * self.throttle


class Received(msgspec.Struct):
    """What a broker has received under one throttle since the run began: nothing is forgotten."""

    bytes: float = 0.0
    alone: float = 0.0
    """The bytes that a single copy would have received in that time."""
    seconds: float = 0.0
    at_once: int = 0
    """The most copies at a time."""

    def add(self, size: float, alone: float, seconds: float, at_once: int) -> None:
        """Add what was received in some seconds."""
        self.bytes += max(0.0, size)
        self.alone += max(0.0, alone)
        self.seconds += seconds
        self.at_once = max(self.at_once, at_once)


class CapacityMemory(msgspec.Struct):
    """What was learned of brokers so far."""

    seen: dict[int, _Seen] = {}
    received: dict[tuple[int, int | None], Received] = {}
    """By broker and throttle."""
    busy_s: float = 0.0


class Capacity:
    """Learn how fast brokers receive.

    Args:
        curve: the rates of earlier runs; None if there are none.
        memory: what was learned so far.
        share: of a throttle that copies are expected to get; None for the usual one.
    """

    def __init__(
        self,
        curve: RateCurve | None = None,
        memory: CapacityMemory | None = None,
        share: float | None = None,
    ) -> None:
        self._curve = curve
        self._share = USUAL_SHARE if share is None else share
        self._memory = CapacityMemory() if memory is None else memory

    @property
    def known(self) -> bool:
        """Whether enough has been measured."""
        return self._memory.busy_s >= _ENOUGH_S

    def learn(
        self, copied: Sequence[tuple[Pair, float]], seconds: float, throttle: ThrottleRates
    ) -> None:
        """Learn from a period.

        Args:
            copied: the bytes that each copy has received, which may be none.
            seconds: the length of the period.
            throttle: the run's throttle.
        """
        load = CopyLoad(throttle.leaves_free, (pair for pair, _ in copied))
        sizes, alone = defaultdict[int, float](float), defaultdict[int, float](float)
        for pair, size in copied:
            sizes[pair[1]] += size
            alone[pair[1]] += size * load.slows(pair) / load.onto(pair[1])
        begun = [self._begun(broker, throttle.of(broker)) for broker in sizes]
        kept = math.exp(-seconds / _SPAN_S)
        for (broker, received), seen in zip(sizes.items(), begun, strict=True):
            self._memory.seen[broker] = seen
            seen.size = kept * seen.size + max(0.0, received)
            seen.alone = kept * seen.alone + max(0.0, alone[broker])
            seen.seconds = kept * seen.seconds + seconds
            self._memory.busy_s += seconds
            sums = self._memory.received.setdefault((broker, seen.throttle), Received())
            sums.add(received, alone[broker], seconds, load.onto(broker))

    def _begun(self, broker: int, limit: int | None) -> _Seen:
        """Return what was seen so far, at first what is expected, if there is any ground for it."""
        seen = self._memory.seen.get(broker)
        if seen is not None and seen.throttle == limit:
            return seen
        if limit is None and self._usual_alone() is None:
            return _Seen(limit, 0.0, 0.0, 0.0)
        expected, alone = self.takes(broker, MANY, limit), self.alone(broker)
        return _Seen(limit, expected * _DOUBT_S, alone * _DOUBT_S, _DOUBT_S)

    def under(self, throttle: ThrottleRates) -> BrokerRates:
        """Return the rates of brokers under a throttle."""
        return BrokerRates(self, throttle)

    @property
    def usual_bytes_s(self) -> float:
        """The most that a broker of which nothing is known takes in, in bytes a second."""
        alone = self._usual_alone()
        return (ASSUMED.middle if alone is None else alone) * speedup(MANY)

    def takes(self, broker: int, at_once: int, throttle: int | None) -> float:
        """Return the rate at which a broker receives, in bytes a second.

        A broker that a throttle has limited keeps its share of another throttle.

        Args:
            broker: the receiving broker.
            at_once: the number of copies that it receives at once.
            throttle: its throttle in bytes a second; None without one.
        """
        seen = self._memory.seen.get(broker)
        if throttle is not None and seen is not None and seen.throttle is not None:
            if seen.bound and seen.throttle != throttle:
                return min(1.0, seen.bytes_s / seen.throttle) * throttle
            return min(seen.bytes_s, throttle)
        free = self.alone(broker) * speedup(at_once)
        if throttle is None:
            return free
        if seen is not None:
            return min(free, throttle)
        share = self._usual_share() * throttle
        return share if self._usual_alone() is None else min(free, share)

    def alone(self, broker: int) -> float:
        """Return the rate of a single copy onto a broker without a throttle, in bytes a second."""
        seen = self._memory.seen.get(broker)
        if seen is not None and seen.seconds and not seen.bound:
            return seen.alone / seen.seconds
        usual = self._usual_alone()
        return ASSUMED.middle if usual is None else usual

    def _usual_alone(self) -> float | None:
        """Return the usual rate of a single copy, by this run or else by earlier ones."""
        free = [seen for seen in self._memory.seen.values() if seen.throttle is None]
        if seconds := sum(seen.seconds for seen in free):
            return sum(seen.alone for seen in free) / seconds
        return None if self._curve is None else self._curve.bytes_s(1, None)

    def _usual_share(self) -> float:
        """Return the share of their throttle that brokers receive."""
        size, granted = 0.0, 0.0
        for seen in self._memory.seen.values():
            if seen.throttle is not None:
                size += seen.size
                granted += seen.seconds * seen.throttle
        share = self._share if self._curve is None else self._curve.throttled
        return min(1.0, size / granted) if granted else share


class BrokerRates(msgspec.Struct, frozen=True):
    """The rates at which brokers receive under a throttle."""

    capacity: Capacity
    throttle: ThrottleRates

    def takes(self, broker: int, at_once: int) -> float:
        """Return the most that a broker takes in while it copies `at_once` replicas."""
        return max(1.0, self.capacity.takes(broker, at_once, self.throttle.of(broker)))

    def of_copy(self, pair: Pair, load: CopyLoad) -> float:
        """Return the rate of one copy, in bytes a second, beside all that are in flight."""
        broker = pair[1]
        if self.throttle.leaves_free(broker):
            return max(1.0, self.capacity.alone(broker) / load.slows(pair))
        at_once = load.onto(broker)
        return self.takes(broker, at_once) / at_once
