"""Time left until a replica has caught up with a leader that keeps growing."""

from __future__ import annotations

from ktui.speed.answer import Span

INTERVAL_S = 22.0
"""Net rates are compared over two throttle windows: shorter intervals show the throttle's gulps."""
INTERVALS = 6
"""Intervals kept: some two minutes."""
_ENOUGH = 2
_WIDEST = 10.0
"""The far end is at most this many times the estimate.

An interval without headway does not mean that there will be none.
"""

_UNSURE = 1.15
"""The range spans at least this factor to either side: copies that share the rate come and go."""
_AT_FIRST = 2.0
"""The factor until enough intervals have shown how much the net rate changes."""
SEEN_S = 2.0
"""Seconds until an end is seen: the replica joins the ISR, and a poll shows it."""


def time_left(lag: int | None, net: float | None, nets: tuple[float, ...]) -> Span | None:
    """Forecast the seconds until the lag is gone.

    Args:
        lag: what is left to copy, in messages or bytes.
        net: how fast the lag shrinks per second, smoothed: the copy rate less the inbound rate.
        nets: the same over recent intervals, for the spread.

    Returns:
        The range p10 to p90; None when unknown, or when the lag never ends at this rate.
    """
    if lag is None:
        return None
    if lag == 0:
        return Span(0.0, 0.0, 0.0)
    if net is None or net <= 0.0:
        return None
    slow, fast = _spread(net, nets)
    return Span(low=lag / fast, middle=lag / net, high=lag / slow + SEEN_S)


def _spread(net: float, nets: tuple[float, ...]) -> tuple[float, float]:
    """Return the slow and the fast net rate, around the current one."""
    if len(nets) < _ENOUGH:
        return net / _AT_FIRST, net * _AT_FIRST
    ordered = sorted(nets)
    slow, fast = _quantile(ordered, 0.1), _quantile(ordered, 0.9)
    return min(net / _UNSURE, max(slow, net / _WIDEST)), max(net * _UNSURE, fast)


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
