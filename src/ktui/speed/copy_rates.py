"""Assumed copy rates of replicas, on which estimated times rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.speed.answer import Span
from ktui.speed.copies_onto import CopiesOnto
from ktui.units import Rate

_UNKNOWN = BrokerConfig()


class BrokerThrottle(msgspec.Struct, frozen=True):
    """A broker's follower.replication.throttled.rate while replicas are added there."""

    broker: int
    bytes_s: int


ASSUMED = Span(20e6, 50e6, 100e6)
"""Default bytes a second that a broker takes in, over all the replicas that it is adding."""

THROTTLED = Span(0.5, 1.0, 1.0)
"""The share of a throttle that copies get: at most all, and less where in-sync traffic counts."""


class CopyRates(msgspec.Struct, frozen=True):
    """Bytes a second into each broker, over all the replicas that it is adding."""

    assumed_bytes_s: Span
    throttles: tuple[BrokerThrottle, ...] = ()
    """Throttles of brokers that gain replicas; such a broker's rate is its throttle."""

    def of(self, broker: int) -> float:
        """Return the middle rate of a broker, in bytes a second."""
        throttle = self.throttle(broker)
        return self.assumed_bytes_s.middle if throttle is None else float(max(1, throttle))

    def intake_s(self, broker: int, copies: CopiesOnto) -> float:
        """Return the least seconds in which a broker takes in some copies."""
        return copies.bytes / self.of(broker)

    def spread(self, broker: int) -> Span:
        """Return a broker's range of rates, as factors of the middle one."""
        if self.throttle(broker) is not None:
            return THROTTLED
        return self.assumed_bytes_s.times(1 / self.assumed_bytes_s.middle)

    def throttle(self, broker: int) -> int | None:
        """Return a broker's throttle in bytes a second; None if no throttle applies."""
        return next((each.bytes_s for each in self.throttles if each.broker == broker), None)


def rates_for(
    gaining: Collection[int],
    configs: Mapping[int, BrokerConfig],
    assume: Rate | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
) -> CopyRates:
    """Compute the rates: the run's throttle, else the operator's assumption, else broker throttles.

    Args:
        gaining: the brokers that gain replicas.
        configs: settings of brokers, by broker, as far as they are known.
        assume: the operator's assumption, taken as exact. The lower of it and the run's throttle
            counts.
        throttle: the run's own throttle, which replaces a broker's present rate.
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
