"""How long producers with acks=all wait, by how busy brokers are and by what holds replicas back.

Pure functions; the chance is the caller's. A broker that is busy for a share `u` of its time
answers half of its requests within 1 / (1 - u^4) of the time that one at rest takes: hardly later,
until it is nearly always busy. Its latest hundredth grows with e^u long before. On six real brokers
this came closer than the form of a queue, 1 / (1 - u), and than one spread at every load.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from typing import NamedTuple

import msgspec

Z99 = 2.326  # the 99th percentile of a normal distribution, in standard deviations from its mean
_STEEPNESS = 4
_LEAST_SPREAD = 0.1


class LatencyModel(msgspec.Struct, frozen=True, kw_only=True):
    """The constants, as fitted to six real brokers on two cores by `python -m bench latency`."""

    rest_s: float = 0.0095  # median seconds of a produce request while nothing else is done
    rest_p99_s: float = 0.019  # the 99th percentile of the same
    growth: float = 3.9  # log of how many times as high it is where a broker is always busy
    most_busy: float = 0.98  # no broker is busier: who copies asks for more only after an answer
    backoff_alone: float = 0.9  # the chance that a follower learns of an epoch too early, for one
    backoff_power: float = 0.6  # of n epochs rising together, each has a chance n^this times lower
    held_back_s: tuple[float, float] = (1.0, 9.0)
    """Seconds for which a broker holds back a replica in sync, once its throttle is used up."""


class Latency(NamedTuple):
    """How long produce requests take, log-normally distributed."""

    median_s: float
    p99_s: float

    @property
    def spread(self) -> float:
        return max(_LEAST_SPREAD, math.log(self.p99_s / self.median_s) / Z99)

    def drawn_s(self, chance: random.Random) -> float:
        return self.median_s * math.exp(self.spread * chance.gauss())

    def late_share(self, late_s: float) -> float:
        return 0.5 * math.erfc(math.log(late_s / self.median_s) / (self.spread * math.sqrt(2)))


def latency(model: LatencyModel, leader: float, followers: Collection[float]) -> Latency:
    """Return how long produce requests take.

    They wait in the leader and then in the slowest of the followers in sync; the latest of them for
    the busiest broker of all.
    """
    slowest = max(followers, default=0.0)
    median_s = model.rest_s * (_slower(model, leader) + _slower(model, slowest)) / 2
    busiest = min(max(leader, slowest), model.most_busy)
    return Latency(median_s, model.rest_p99_s * math.exp(model.growth * busiest))


def _slower(model: LatencyModel, busy: float) -> float:
    return 1 / (1 - min(busy, model.most_busy) ** _STEEPNESS)


def backoff_chance(model: LatencyModel, together: int) -> float:
    """Return the chance that a partition waits for a follower's back-off when its epoch rises."""
    return model.backoff_alone * math.pow(together, -model.backoff_power)
