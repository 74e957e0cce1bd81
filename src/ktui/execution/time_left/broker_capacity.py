"""The rates at which each broker receives and sends, learned from a run's own copies."""

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

MANY = 100
"""Copies at once with which a broker takes in about as much as it can."""
_SPAN_S = 30.0
"""Seconds after which a sample counts little: more than two windows of Kafka's throttle."""
_BINDS = 0.8
"""A broker that receives this share of its throttle is limited by it: it could receive more."""
_SLOW = 0.85
"""Copies slower than this share of their brokers' capacity are limited elsewhere."""
_FULL = 0.999
"""A broker predicted to be at this share of its capacity counts as at its limit."""


class Capacity:
    """Learn how fast brokers receive, and how fast the leaders send that limit copies.

    At each poll it predicts the rates from the capacities learned so far. A broker predicted to be
    at its limit is corrected by the measured rate. So is one faster than its learned capacity. A
    leader is assumed to send at any rate, until all of its copies are slower than their brokers
    can receive.

    Args:
        curve: the rates of earlier runs; None if there are none.
    """

    def __init__(self, curve: RateCurve | None = None) -> None:
        self._curve = curve
        self._takes: dict[int, float] = {}
        """Bytes a second that each broker receives with many copies at once."""
        self._sends: dict[int, float] = {}
        """Bytes a second that each limiting leader sends."""
        self.known = False
        """Whether anything has been measured."""

    def learn(
        self,
        copies: Mapping[Pair, int],
        bytes_s: Mapping[Pair, float],
        seconds: float,
        throttle: ThrottleRates,
    ) -> None:
        """Learn from the copies of a period in which the set of replicas being added was constant.

        Args:
            copies: the number of copies for each pair of leader and receiving broker.
            bytes_s: the rate of all copies of each pair together, in bytes a second.
            seconds: the length of the period.
            throttle: the run's throttle for each receiving broker.
        """
        self.known = True
        received, sent = _by_broker(bytes_s, 1), _by_broker(bytes_s, 0)
        onto = _by_broker(copies, 1)
        held = {b for b, rate in received.items() if rate >= _BINDS * (throttle.of(b) or math.inf)}
        for broker in held:
            if self._takes.get(broker, math.inf) < received[broker]:
                del self._takes[broker]  # it can receive more, by an unknown amount
        for broker in received.keys() - held:
            if received[broker] > 0:
                self._takes.setdefault(broker, received[broker] / self._utilization(onto[broker]))
        rates = fair_rates(copies, self.under(throttle))
        predicted = {pair: rates[pair] * count for pair, count in copies.items()}
        weight = 1 - math.exp(-seconds / _SPAN_S)
        blamed = {
            leader
            for leader in sent.keys() - self._sends.keys()
            if _held_up_by(leader, bytes_s, predicted)
        }
        self._correct(self._sends, sent, _by_broker(predicted, 0), weight)
        self._sends |= {leader: sent[leader] for leader in blamed}
        spared = {broker for leader, broker in copies if leader in blamed} | held
        free = {
            b: rate / self._utilization(onto[b]) for b, rate in received.items() if b not in spared
        }
        expected = {
            b: rate / self._utilization(onto[b]) for b, rate in _by_broker(predicted, 1).items()
        }
        self._correct(self._takes, free, expected, weight)

    @staticmethod
    def _correct(
        known: dict[int, float],
        measured: Mapping[int, float],
        predicted: Mapping[int, float],
        weight: float,
    ) -> None:
        for broker, rate in measured.items():
            most = known.get(broker)
            if most is not None and (rate > most or predicted[broker] >= _FULL * most):
                known[broker] = most + weight * (rate - most)

    def under(self, throttle: ThrottleRates) -> _Bandwidth:
        """Return the bandwidth of brokers under a throttle."""
        usual = median(self._takes.values()) if self._takes else None
        if usual is None and self._curve is not None:
            usual = self._curve.most_bytes_s
        return _Bandwidth(self, throttle, ASSUMED.middle if usual is None else usual)

    def sends(self, leader: int) -> float:
        """Return the most that a leader sends, in bytes a second; infinite unless it is known."""
        return self._sends.get(leader, math.inf)

    def takes(self, broker: int, at_once: int, throttle: int | None, usual: float) -> float:
        """Return the rate at which a broker receives, in bytes a second.

        A broker that only a throttle has limited so far receives at the throttle's rate.

        Args:
            broker: the receiving broker.
            at_once: the number of copies that it receives at once.
            throttle: its throttle in bytes a second; None without one.
            usual: the rate of a broker that has not been measured, in bytes a second.
        """
        most = self._takes.get(broker)
        if most is None and self.known and throttle is not None:
            return float(throttle)
        free = (usual if most is None else most) * self._utilization(at_once)
        share = 1.0 if self._curve is None else self._curve.throttled
        return free if throttle is None else min(free, share * throttle)

    def _utilization(self, at_once: float) -> float:
        """Return the share of its highest rate that a broker reaches with so many copies."""
        return 1.0 if self._curve is None else at_once / (at_once + self._curve.half_at)


class _Bandwidth(msgspec.Struct, frozen=True):
    """The bandwidth of brokers under a throttle."""

    capacity: Capacity
    throttle: ThrottleRates
    usual: float

    def sends(self, leader: int) -> float:
        return self.capacity.sends(leader)

    def takes(self, broker: int, at_once: int) -> float:
        free = self.capacity.takes(broker, at_once, self.throttle.of(broker), self.usual)
        return max(1.0, free)


def _by_broker(of: Mapping[Pair, float], side: int) -> dict[int, float]:
    """Add up by leader (side 0), or by receiving broker (side 1)."""
    total: defaultdict[int, float] = defaultdict(float)
    for pair, value in of.items():
        total[pair[side]] += value
    return dict(total)


def _held_up_by(
    leader: int, measured: Mapping[Pair, float], predicted: Mapping[Pair, float]
) -> bool:
    """Whether all copies from one leader, to several brokers, are slower than predicted."""
    its = [pair for pair in measured if pair[0] == leader]
    return len(its) > 1 and all(0 < measured[pair] < _SLOW * predicted[pair] for pair in its)
