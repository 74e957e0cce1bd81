"""The rates at which each broker receives, learned from a run's own copies.

A rate is bytes by busy time: the seconds in which a broker had something to copy, also those in
which nothing came. So the gulps of a throttle, the fetches that a leader lets wait and the seconds
until a new copy begins are all in it, as they will be for the copies to come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ktui.insights.curve import RateCurve
from ktui.planning.simulate.copy_rates import ASSUMED
from ktui.planning.throttle_rates import ThrottleRates

MANY = 100
"""Copies at once with which a broker takes in about as much as it can."""
_SPAN_S = 120.0
"""Busy seconds after which what was copied counts for a third."""
_DOUBT_S = 5.0
"""The rate that is expected of a broker counts as so many seconds in which it was seen."""
_BINDS = 0.6
"""A broker that receives this share of its throttle is limited by it: it could receive more."""
_SHARE = 0.8
"""The share of a throttle that copies are expected to get; real ones got 0.5 to 0.8 of it."""
_ENOUGH_S = 4.0
"""Busy seconds of all brokers together from which on a run has shown how fast it copies."""


class _Seen(msgspec.Struct):
    """What a broker has received under one throttle; older seconds count less."""

    throttle: int | None
    size: float
    """Bytes; without a throttle as if a broker with many copies at once had received them."""
    seconds: float

    @property
    def bytes_s(self) -> float:
        return self.size / self.seconds

    @property
    def bound(self) -> bool:
        """Whether the throttle limits the broker."""
        return self.throttle is not None and self.bytes_s >= _BINDS * self.throttle


class CapacityMemory(msgspec.Struct):
    """What was learned of brokers so far."""

    seen: dict[int, _Seen] = {}
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
        self._share = _SHARE if share is None else share
        self._memory = CapacityMemory() if memory is None else memory

    @property
    def known(self) -> bool:
        """Whether enough has been measured."""
        return self._memory.busy_s >= _ENOUGH_S

    def learn(
        self,
        at_once: Mapping[int, int],
        copied: Mapping[int, float],
        seconds: float,
        throttle: ThrottleRates,
    ) -> None:
        """Learn from a period.

        Args:
            at_once: the number of copies of each broker that had any, at least one.
            copied: the bytes that these brokers received for them.
            seconds: the length of the period.
            throttle: the run's throttle.
        """
        begun = [self._begun(broker, throttle.of(broker)) for broker in at_once]
        kept = math.exp(-seconds / _SPAN_S)
        for (broker, count), seen in zip(at_once.items(), begun, strict=True):
            self._memory.seen[broker] = seen
            size = max(0.0, copied.get(broker, 0.0))
            if seen.throttle is None:
                size /= self._utilization(count)
            seen.size = kept * seen.size + size
            seen.seconds = kept * seen.seconds + seconds
            self._memory.busy_s += seconds

    def _begun(self, broker: int, limit: int | None) -> _Seen:
        """Return what was seen so far, at first what is expected, if there is any ground for it."""
        seen = self._memory.seen.get(broker)
        if seen is not None and seen.throttle == limit:
            return seen
        if limit is None and self._usual_free() is None:
            return _Seen(limit, 0.0, 0.0)
        return _Seen(limit, self.takes(broker, MANY, limit) * _DOUBT_S, _DOUBT_S)

    def under(self, throttle: ThrottleRates) -> BrokerRates:
        """Return the rates of brokers under a throttle."""
        return BrokerRates(self, throttle)

    @property
    def usual_bytes_s(self) -> float:
        """The rate of a broker without a throttle of which nothing is known, in bytes a second."""
        free = self._usual_free()
        return ASSUMED.middle if free is None else free

    def takes(self, broker: int, at_once: int, throttle: int | None) -> float:
        """Return the rate at which a broker receives, in bytes a second.

        A broker that a throttle has limited keeps its share of another throttle.

        Args:
            broker: the receiving broker.
            at_once: the number of copies that it receives at once.
            throttle: its throttle in bytes a second; None without one.
        """
        seen = self._memory.seen.get(broker)
        if seen is not None and seen.bound and seen.throttle != throttle:
            if throttle is not None:
                return min(1.0, seen.bytes_s / (seen.throttle or 1)) * throttle
            seen = None
        if seen is None:
            return self._expected(at_once, throttle)
        free = seen.bytes_s
        if seen.throttle is None:
            free *= self._utilization(at_once)
        return free if throttle is None else min(free, throttle)

    def _expected(self, at_once: int, throttle: int | None) -> float:
        """Return the rate of a broker that is like those seen."""
        free = self.usual_bytes_s * self._utilization(at_once)
        if throttle is None:
            return free
        share = self._usual_share() * throttle
        return share if self._usual_free() is None else min(free, share)

    def _usual_free(self) -> float | None:
        """Return the rate of brokers without a throttle, by this run or else by earlier ones."""
        free = [
            seen for seen in self._memory.seen.values() if seen.throttle is None and seen.seconds
        ]
        seconds = sum(seen.seconds for seen in free)
        if seconds:
            return sum(seen.size for seen in free) / seconds
        return None if self._curve is None else self._curve.most_bytes_s

    def _usual_share(self) -> float:
        """Return the share of their throttle that brokers receive."""
        size, granted = 0.0, 0.0
        for seen in self._memory.seen.values():
            if seen.throttle is not None:
                size += seen.size
                granted += seen.seconds * seen.throttle
        share = self._share if self._curve is None else self._curve.throttled
        return min(1.0, size / granted) if granted else share

    def _utilization(self, at_once: float) -> float:
        """Return the share of its highest rate that a broker reaches with so many copies."""
        return 1.0 if self._curve is None else at_once / (at_once + self._curve.half_at)


class BrokerRates(msgspec.Struct, frozen=True):
    """The rates at which brokers receive under a throttle."""

    capacity: Capacity
    throttle: ThrottleRates

    def takes(self, broker: int, at_once: int) -> float:
        """Return the most that a broker takes in while it copies `at_once` replicas."""
        return max(1.0, self.capacity.takes(broker, at_once, self.throttle.of(broker)))
