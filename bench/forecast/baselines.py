"""Naive forecasts that ktui's has to beat, beside the two of the pipeline's backtest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run
from ktui.progress.timeline import Role, Timeline

_MEMORY_S = 30.0

LINEAR, RECENT, SMOOTHED, BY_THROTTLE = "linear", "last 10 s", "EWMA", "by throttle"
BASELINES = (LINEAR, RECENT, SMOOTHED, BY_THROTTLE)


class SmoothedRate:
    """What is left by an exponentially weighted mean of the rate, of some 30 s."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None
        self._rate = self._weight = 0.0

    def left_s(self, at_s: float, share: float | None) -> float | None:
        """Take in the share done at a second, and return the seconds left; None while unknown."""
        if share is None:
            return None
        if self._last is not None and at_s > self._last[0]:
            passed_s = at_s - self._last[0]
            kept = math.exp(-passed_s / _MEMORY_S)
            rate = (share - self._last[1]) / passed_s
            self._weight = kept * self._weight + 1 - kept
            self._rate += (1 - kept) / self._weight * (rate - self._rate)
        self._last = at_s, share
        return (1 - share) / self._rate if self._rate > 0 else None


def left_by_throttle_s(run: Run, timelines: Mapping[TopicPartition, Timeline]) -> float | None:
    """Return the seconds in which the throttles let through what is left, on the slowest broker.

    Returns:
        None if a broker that receives anything has no throttle.
    """
    onto: defaultdict[int, float] = defaultdict(float)
    for track in run.tracks.values():
        if track.state.ended:
            continue
        timeline = timelines.get(track.tp)
        for broker in track.planned.target:
            if broker not in track.original:
                onto[broker] += track.planned.size * (1 - _share(timeline, broker))
    rates = {broker: run.throttled.in_force.of(broker) for broker in onto}
    known = {broker: rate for broker, rate in rates.items() if rate}
    if not onto or len(known) < len(onto):
        return None
    return max(onto[broker] / rate for broker, rate in known.items())


def _share(timeline: Timeline | None, broker: int) -> float:
    lane = None if timeline is None else timeline.lanes.get(broker)
    if lane is None:
        return 0.0
    if lane.role in (Role.IN_SYNC, Role.LEADER):
        return 1.0
    return lane.share or 0.0 if lane.role is Role.ADDING else 0.0
