"""How fast replicas are taken to be copied: the assumption that estimated times rest on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
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
    """The follower.replication.throttled.rate that a broker has while replicas come to it."""

    broker: int
    bytes_s: int


ASSUMED = Span(20e6, 50e6, 100e6)
"""Bytes a second that a broker takes in, for all the replicas it is adding, if nobody says."""

_UNKNOWN = BrokerConfig()
_THROTTLED = Span(0.5, 1.0, 1.0)
"""What comes through a throttle: never more, and less the in-sync traffic that it counts too."""


class CopyRates(msgspec.Struct, frozen=True):
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
    gaining: Collection[int],
    configs: Mapping[int, BrokerConfig],
    assume: Rate | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
) -> CopyRates:
    """Tell the rates: the run's throttle, else what is assumed, else the throttles that are there.

    Args:
        gaining: the brokers that gain replicas.
        configs: settings of brokers, by broker, as far as they are known.
        assume: what the operator says; it is taken as exact. Of it and the run's throttle the
            lower counts.
        throttle: the run's own: it replaces whatever rate a broker has.
    """
    assumed = ASSUMED
    if assume is not None:
        exact = float(assume)  # a plain number, which can be written as JSON
        assumed = Span(exact, exact, exact)
    in_force = {
        broker: throttle.of(broker)
        if assume is not None or throttle.of(broker) is not None
        else configs.get(broker, _UNKNOWN).follower_throttle_rate
        for broker in sorted(gaining)
    }
    throttles = tuple(
        BrokerThrottle(broker, rate)
        for broker, rate in in_force.items()
        if rate is not None and (assume is None or rate < assume)
    )
    return CopyRates(assumed, throttles)
