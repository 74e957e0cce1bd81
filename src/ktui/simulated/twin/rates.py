"""How fast brokers take in the replicas that they are adding: recorded, or assumed."""

from __future__ import annotations

from ktui.insights.insights import ClusterInsights
from ktui.planning.simulate.copy_rates import ASSUMED
from ktui.simulated.scenario.record import RatesFrom, SnapshotRates


def rates_of(insights: ClusterInsights | None) -> SnapshotRates:
    """Return the rates of a broker that adds many replicas at once.

    Recorded rates count only where no throttle held every copy up.

    Args:
        insights: what recorded runs show of the cluster; None without any.
    """
    prior = None if insights is None else insights.prior
    if prior is None or prior.curve.known_to is not None:
        return _rates(ASSUMED.low, ASSUMED.middle, ASSUMED.high, RatesFrom.ASSUMED)
    most, curve = prior.curve.most_bytes_s, prior.curve
    return _rates(most * min(1.0, curve.low), most, most * max(1.0, curve.high), RatesFrom.RECORDED)


def _rates(slow: float, usual: float, fast: float, source: RatesFrom) -> SnapshotRates:
    """Return rates of whole bytes, at least one."""
    slow, usual, fast = (float(max(1, round(rate))) for rate in (slow, usual, fast))
    return SnapshotRates(slow=slow, usual=usual, fast=fast, source=source)
