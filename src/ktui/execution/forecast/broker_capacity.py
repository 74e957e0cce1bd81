"""What each broker takes in and sends, as a run's own copies have shown it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from statistics import median

import msgspec

from ktui.insights.curve import RateCurve
from ktui.planning.simulate.copy_rates import ASSUMED
from ktui.planning.simulate.fair_share import Pair, fair_rates
from ktui.planning.throttle_rates import ThrottleRates

_SPAN_S = 30.0
"""What was seen longer ago counts little: more than two of the throttle's windows."""
_BINDS = 0.8
"""A broker that takes in this share of its throttle is held up by it: it could take in more."""
_SLOW = 0.85
"""Copies slower than this share of what their brokers can take in are held up elsewhere."""
_FULL = 0.999


class Capacity:
    """Learns what brokers take in, and of leaders that hold copies up what they send.

    Of each look it foretells the rates by what it has learnt so far; who is foretold to be at his
    limit is corrected by what came through, and whoever did more than was thought, too. A leader is
    taken to send whatever is asked for, until all of its copies come slower than their brokers can.

    Args:
        curve: what earlier runs tell; None where there are none.
    """

    def __init__(self, curve: RateCurve | None = None) -> None:
        self._curve = curve
        self._takes: dict[int, float] = {}
        """Bytes a second, when many copies come at once."""
        self._sends: dict[int, float] = {}
        self.known = False
        """Whether anything has been seen."""

    def learn(
        self,
        copies: Mapping[Pair, int],
        bytes_s: Mapping[Pair, float],
        seconds: float,
        throttle: ThrottleRates,
    ) -> None:
        """Take in what was copied while the same replicas were being added.

        Args:
            copies: how many of each leader and broker.
            bytes_s: of all copies of each together.
            seconds: for how long.
            throttle: what the run lets into each broker.
        """
        self.known = True
        taken, sent = _by_broker(bytes_s, 1), _by_broker(bytes_s, 0)
        onto = _by_broker(copies, 1)
        held = {b for b, rate in taken.items() if rate >= _BINDS * (throttle.of(b) or math.inf)}
        for broker in held:
            if self._takes.get(broker, math.inf) < taken[broker]:
                del self._takes[broker]  # it takes in more, and how much does not show
        for broker in taken.keys() - held:
            if taken[broker] > 0:
                self._takes.setdefault(broker, taken[broker] / self._part(onto[broker]))
        told = fair_rates(copies, self.under(throttle))
        told_of = {pair: told[pair] * count for pair, count in copies.items()}
        weight = 1 - math.exp(-seconds / _SPAN_S)
        blamed = {
            leader
            for leader in sent.keys() - self._sends.keys()
            if _held_up_by(leader, bytes_s, told_of)
        }
        self._correct(self._sends, sent, _by_broker(told_of, 0), weight)
        self._sends |= {leader: sent[leader] for leader in blamed}
        spared = {broker for leader, broker in copies if leader in blamed} | held
        free = {b: rate / self._part(onto[b]) for b, rate in taken.items() if b not in spared}
        expected = {b: rate / self._part(onto[b]) for b, rate in _by_broker(told_of, 1).items()}
        self._correct(self._takes, free, expected, weight)

    @staticmethod
    def _correct(
        known: dict[int, float],
        seen: Mapping[int, float],
        told: Mapping[int, float],
        weight: float,
    ) -> None:
        for broker, rate in seen.items():
            most = known.get(broker)
            if most is not None and (rate > most or told[broker] >= _FULL * most):
                known[broker] = most + weight * (rate - most)

    def under(self, throttle: ThrottleRates) -> _Rooms:
        """Tell what brokers can do under a throttle."""
        usual = median(self._takes.values()) if self._takes else None
        if usual is None and self._curve is not None:
            usual = self._curve.most_bytes_s
        return _Rooms(self, throttle, ASSUMED.middle if usual is None else usual)

    def sends(self, leader: int) -> float:
        """Tell what a leader sends at most."""
        return self._sends.get(leader, math.inf)

    def takes(self, broker: int, at_once: int, throttle: int | None, usual: float) -> float:
        """Tell what a broker takes in; one that only a throttle has held up takes in its rate."""
        most = self._takes.get(broker)
        if most is None and self.known and throttle is not None:
            return float(throttle)
        free = (usual if most is None else most) * self._part(at_once)
        share = 1.0 if self._curve is None else self._curve.throttled
        return free if throttle is None else min(free, share * throttle)

    def _part(self, at_once: float) -> float:
        """Tell how much of what a broker takes in at most it does with so many copies."""
        return 1.0 if self._curve is None else at_once / (at_once + self._curve.half_at)


class _Rooms(msgspec.Struct, frozen=True):
    """What brokers can do under a throttle."""

    capacity: Capacity
    throttle: ThrottleRates
    usual: float

    def sends(self, leader: int) -> float:
        return self.capacity.sends(leader)

    def takes(self, broker: int, at_once: int) -> float:
        free = self.capacity.takes(broker, at_once, self.throttle.of(broker), self.usual)
        return max(1.0, free)


def _by_broker(of: Mapping[Pair, float], side: int) -> dict[int, float]:
    """Add up by leader (0), or by whom they are copied onto (1)."""
    total: defaultdict[int, float] = defaultdict(float)
    for pair, value in of.items():
        total[pair[side]] += value
    return dict(total)


def _held_up_by(leader: int, seen: Mapping[Pair, float], told: Mapping[Pair, float]) -> bool:
    """Whether everything that one leader sends, to several brokers, comes slower than it could."""
    its = [pair for pair in seen if pair[0] == leader]
    return len(its) > 1 and all(0 < seen[pair] < _SLOW * told[pair] for pair in its)
