"""Time left until a replica has caught up with a leader that moves on meanwhile."""

from __future__ import annotations

from ktui.progress.timeline import Range

INTERVAL_S = 22.0
"""Net rates are compared over intervals of two throttle windows: shorter ones show its gulps."""
INTERVALS = 6
"""How many are kept: some two minutes."""
_ENOUGH = 2
_WIDEST = 10.0
"""An interval of no headway is no forecast of none: the far end is at most this much farther."""

_UNSURE = 1.15
"""No rate is surer than that: others come and go that it is shared with."""
_SEEN_S = 2.0
"""Until an end is seen: the replica joins the ISR, and a poll tells."""


def time_left(lag: int | None, net: float | None, nets: tuple[float, ...]) -> Range | None:
    """Forecast the seconds until the lag is gone.

    Args:
        lag: what is left to copy, in messages or bytes.
        net: how fast it shrinks, a second, smoothed: the rate copied less the inbound rate.
        nets: the same over recent intervals, for the spread.

    Returns:
        The range p10 to p90; None when unknown, or never at this rate.
    """
    if lag is None:
        return None
    if lag == 0:
        return Range(0.0, 0.0, 0.0)
    if net is None or net <= 0.0:
        return None
    slow, fast = _spread(net, nets)
    return Range(low=lag / fast, middle=lag / net, high=lag / slow + _SEEN_S)


def _spread(net: float, nets: tuple[float, ...]) -> tuple[float, float]:
    """Give the slow and the fast net rate, around the present one."""
    if len(nets) < _ENOUGH:
        return net / 2.0, net * 2.0
    ordered = sorted(nets)
    slow, fast = _quantile(ordered, 0.1), _quantile(ordered, 0.9)
    return min(net / _UNSURE, max(slow, net / _WIDEST)), max(net * _UNSURE, fast)


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
