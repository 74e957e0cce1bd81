"""How fast replicas are taken to be copied: the assumption that estimated times rest on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.units import Rate


class Span(msgspec.Struct, frozen=True):
    """A figure that is not known exactly."""

    low: float
    middle: float
    high: float

    def times(self, factor: float) -> Span:
        """Give as many times as much of it."""
        return Span(self.low * factor, self.middle * factor, self.high * factor)


class BrokerThrottle(msgspec.Struct, frozen=True):
    """The follower.replication.throttled.rate that a broker has now."""

    broker: int
    bytes_s: int


ASSUMED = Span(20e6, 50e6, 100e6)
"""Bytes a second that a broker takes in, for all the replicas it is adding, if nobody says."""

_THROTTLED = Span(0.5, 1.0, 1.0)
"""What comes through a throttle: never more, and less the in-sync traffic that it counts too."""


class Rates(msgspec.Struct, frozen=True):
    """Bytes a second that go into each broker, for all the replicas that it is adding."""

    assumed_bytes_s: Span
    throttles: tuple[BrokerThrottle, ...] = ()
    """Of the brokers that gain replicas and are throttled: they have their throttle's rate."""

    def of(self, broker: int) -> float:
        """Give the middle rate of a broker."""
        throttle = self.throttle(broker)
        return self.assumed_bytes_s.middle if throttle is None else float(max(1, throttle))

    def spread(self, broker: int) -> Span:
        """Give a broker's rates from the slowest to the fastest, as parts of the middle one."""
        if self.throttle(broker) is not None:
            return _THROTTLED
        return self.assumed_bytes_s.times(1 / self.assumed_bytes_s.middle)

    def throttle(self, broker: int) -> int | None:
        """Give a broker's throttle, if there is one that counts."""
        return next((each.bytes_s for each in self.throttles if each.broker == broker), None)


def rates_for(
    gaining: Collection[int], configs: Mapping[int, BrokerConfig], assume: Rate | None = None
) -> Rates:
    """Tell the rates: those given, else the brokers' follower throttles, else an assumption.

    Args:
        gaining: the brokers that gain replicas.
        configs: settings of brokers, by broker, as far as they are known.
        assume: what the operator says; it is taken as exact.
    """
    if assume is not None:
        exact = float(assume)  # a plain number, which can be written as JSON
        return Rates(Span(exact, exact, exact))
    throttles = tuple(
        BrokerThrottle(broker, rate)
        for broker in sorted(gaining)
        if (config := configs.get(broker)) and (rate := config.follower_throttle_rate) is not None
    )
    return Rates(ASSUMED, throttles)
