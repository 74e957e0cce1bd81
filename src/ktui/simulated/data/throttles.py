"""Kafka's replication throttles: the replicas they bind, and how long a lowered one is shut."""

from __future__ import annotations

import math

import msgspec

from ktui.planning.throttle_rates import WINDOW_S


class ThrottledReplicas(frozenset[tuple[int, int]]):
    """A topic's list of throttled replicas, leaders or followers: pairs of partition and broker."""

    everywhere = False


class _Everywhere(ThrottledReplicas):
    """A list of "*": every partition on every broker."""

    everywhere = True

    def __contains__(self, _: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


NOWHERE = ThrottledReplicas()
EVERYWHERE = _Everywhere()


class _Excess(msgspec.Struct, frozen=True):
    """The flow when a throttle was lowered below it; the window's average starts from there."""

    rate: float
    at_s: float

    def average(self, now_s: float) -> float:
        """Return the window's average, if nothing has flowed since."""
        return self.rate * max(0.0, 1 - (now_s - self.at_s) / WINDOW_S)


class ReplicationThrottle:
    """One broker's leader.replication.throttled.rate or the follower's, in bytes per second."""

    def __init__(self) -> None:
        self.rate = math.inf
        self.opens_s = 0.0
        """The second until which nothing flows, because the window's average exceeds the rate."""
        self._excess = _Excess(0.0, 0.0)

    def set_rate(self, rate: float | None, flowing: float, now_s: float) -> None:
        """Change the rate; None lifts the throttle. `flowing` is the rate of traffic until now."""
        new = math.inf if rate is None else rate
        if new == self.rate:
            return
        self.rate = new
        if flowing > self._excess.average(now_s):
            self._excess = _Excess(flowing, now_s)
        self.opens_s = now_s
        if self._excess.average(now_s) > self.rate:
            excess = self._excess
            self.opens_s = excess.at_s + WINDOW_S * (1 - self.rate / excess.rate)

    def room(self, steady: float, now_s: float) -> float:
        """Return the rate left to flows beside `steady`, the in-sync traffic of listed replicas."""
        return max(0.0, self.rate - steady) if now_s >= self.opens_s else 0.0
