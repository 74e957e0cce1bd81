"""The rate of all copies onto a broker, or from it, over a window that outlasts single copies."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

WINDOW_S = 22.0
"""Two windows of Kafka's throttle, which averages over 11 s."""
GULP_S = 15.0
"""A throttle lets copies through in gulps: a pause of up to this long belongs to the next one.

Kafka averages over 11 s, and a gulp takes a poll or two to be seen. With less, forecasts of
partitions follow single gulps (bench/forecast/ablation.py); with more, stops are seen later.
"""
LEAST_SPAN_S = 5.0
"""With less than this observed, no rate is known."""
_SPACING_S = 1.0
"""More frequent polls replace the last point."""


class FlowMeter(msgspec.Struct, frozen=True, gc=False):
    """All that was copied on one side of a broker, at the end of each poll."""

    points: tuple[tuple[float, float], ...]
    """(monotonic second, bytes in all), oldest first: those that the window needs."""
    copying: bool = True
    """Whether the last poll showed a copy under way."""


def start_meter(at_s: float) -> FlowMeter:
    """Start to measure: what was copied before is not known."""
    return FlowMeter(((at_s, 0.0),))


def advance_meter(meter: FlowMeter, grown: float, at_s: float, *, copying: bool) -> FlowMeter:
    """Add the bytes copied up to a second, at or after that of the last point."""
    points = meter.points
    total = points[-1][1] + grown
    if len(points) > 1 and at_s - points[-2][0] < _SPACING_S:
        points = points[:-1]
    oldest_s = at_s - WINDOW_S - 2 * GULP_S
    needless = bisect_left(points, oldest_s, lo=1, key=_second) - 1
    return FlowMeter((*points[needless:], (at_s, total)), copying)


def flow_rate(meter: FlowMeter | None, now_s: float) -> float | None:
    """Return bytes a second, measured from gulp to gulp; None while unknown.

    A rate is unknown until enough was observed, and once nothing has been read for long.
    """
    if meter is None or now_s - meter.points[-1][0] > GULP_S:
        return None
    points = meter.points
    if points[-1][0] - points[0][0] < LEAST_SPAN_S:
        return None
    end = _end(meter)
    start = _start(points, end[0] - WINDOW_S)
    passed_s = end[0] - start[0]
    return (end[1] - start[1]) / passed_s if passed_s > 0.0 else 0.0


def is_over(meter: FlowMeter) -> bool:
    """Whether nothing is copied, nor was within the window."""
    oldest, newest = meter.points[0], meter.points[-1]
    started = next((p for p in meter.points if p[0] >= newest[0] - WINDOW_S), newest)
    whole = newest[0] - oldest[0] >= WINDOW_S
    return not meter.copying and whole and started[1] == newest[1]


def _second(point: tuple[float, float]) -> float:
    return point[0]


def _end(meter: FlowMeter) -> tuple[float, float]:
    """Return the last gulp; the last point where no other gulp is to be expected."""
    points = meter.points
    newest = points[-1]
    if not meter.copying or newest[0] - points[0][0] < WINDOW_S:
        return newest
    gulp = next((p for p in points if p[1] == newest[1]), newest)
    return gulp if newest[0] - gulp[0] < GULP_S else newest


def _start(points: tuple[tuple[float, float], ...], latest_s: float) -> tuple[float, float]:
    """Return the last gulp before the window, else its first point."""
    before = bisect_right(points, latest_s, key=_second)
    if not before:
        return points[0]
    last = points[before - 1]
    gulps = (points[p] for p in range(before - 1, 0, -1) if points[p][1] > points[p - 1][1])
    gulp = next(gulps, None)
    return gulp if gulp is not None and last[0] - gulp[0] < GULP_S else last
