"""How fast brokers take in the replicas that they are adding: known of earlier runs, or assumed."""

from __future__ import annotations

from ktui.insights.prior import Prior
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated.scenario.record import RatesFrom, SnapshotRates
from ktui.speed.capacity import Capacity, share_of_throttle
from ktui.speed.copies import HALF_AT

_LEAST = 0.001


def rates_of(prior: Prior | None) -> SnapshotRates:
    """Return the rates of a broker that adds many replicas at once, as forecasts have them.

    Args:
        prior: what earlier runs on the cluster show; None for nothing.
    """
    capacity = Capacity(prior)
    span = capacity.under(NO_THROTTLE).spread(_ANY).times(capacity.alone(_ANY) * (1 + HALF_AT))
    seen = prior is not None and prior.curve.known_to is None
    shown = () if prior is None else sorted(prior.alone)
    of = {broker: _whole(capacity.alone(broker) * (1 + HALF_AT)) for broker in shown}
    return SnapshotRates(
        slow=_whole(span.low),
        usual=_whole(span.middle),
        fast=_whole(span.high),
        half_at=HALF_AT,
        throttled=round(min(1.0, max(_LEAST, share_of_throttle(prior))), 3),
        of=of,
        source=RatesFrom.RECORDED if seen else RatesFrom.ASSUMED,
    )


_ANY = -1
"""A broker of which no run shows more than of the others."""


def _whole(bytes_s: float) -> float:
    return float(max(1, round(bytes_s)))
