"""How fast brokers take in the replicas that they are adding: recorded, or assumed."""

from __future__ import annotations

from ktui.insights.prior import Prior
from ktui.simulated.scenario.record import RatesFrom, SnapshotRates
from ktui.speed.answer import Span
from ktui.speed.capacity import ASSUMED


def rates_of(prior: Prior | None) -> SnapshotRates:
    """Return the rates of a broker that adds many replicas at once.

    Rates that were seen count only where no throttle held every copy up. The share of a throttle
    that copies get is known from those that one did hold up.

    Args:
        prior: what earlier runs show of the cluster; None without any.
    """
    if prior is None:
        return _rates(ASSUMED, RatesFrom.ASSUMED)
    curve = prior.curve
    throttled = round(min(1.0, max(_LEAST, curve.throttled)), 3)
    if curve.known_to is not None:
        return _rates(ASSUMED, RatesFrom.ASSUMED, throttled=throttled)
    unsure = max(UNSURE, 1 + _ONE_RUN / max(1, curve.unthrottled_runs))
    return _rates(
        Span(min(1 / unsure, curve.low), 1.0, max(unsure, curve.high)).times(curve.most_bytes_s),
        RatesFrom.RECORDED,
        half_at=round(curve.half_at, 3),
        most_at=curve.holds_to if curve.half_at else None,
        throttled=throttled,
    )


_LEAST = 0.001
UNSURE = 1.15
"""The least range to either side, as of the time left: runs differ more than a run's brokers do."""
_ONE_RUN = 0.75
"""What the range reaches beyond the rate where one run alone showed it; with n runs, an nth of it.
Later runs on the same five brokers took 0.7 to 1.7 times as long as one had promised."""


def _rates(
    span: Span,
    source: RatesFrom,
    *,
    half_at: float = 0.0,
    most_at: int | None = None,
    throttled: float = 1.0,
) -> SnapshotRates:
    """Return rates of whole bytes, at least one."""
    slow, usual, fast = (float(max(1, round(each))) for each in (span.low, span.middle, span.high))
    return SnapshotRates(
        slow=slow,
        usual=usual,
        fast=fast,
        half_at=half_at,
        most_at=most_at,
        throttled=throttled,
        source=source,
    )
