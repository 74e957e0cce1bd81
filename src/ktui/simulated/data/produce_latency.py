"""How long producers with acks=all wait, by how busy brokers are and by what holds replicas back.

Pure functions; the chance is the caller's. The form is that of a queue: a broker that is busy for a
share `u` of its time answers 1 / (1 - u) times as late as one at rest.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection

import msgspec


class LatencyModel(msgspec.Struct, frozen=True, kw_only=True):
    """The constants. `python -m bench latency` fits the first three to real brokers.

    As they stand they are guesses of a usual size; those of the back-off were measured.
    """

    rest_s: float = 0.010
    """Median seconds of a produce request while nothing else is done."""
    spread: float = 0.5
    """Standard deviation of the logarithm of the seconds, at one load."""
    most_busy: float = 0.9
    """No broker is busier: those that copy ask for more only once they have an answer."""
    backoff_alone: float = 0.9
    """The chance that a follower learns of a new leader epoch too early, for a lone partition."""
    backoff_power: float = 0.6
    """Of n epochs that rise together, each has a chance n to the power of this times lower."""
    held_back_s: tuple[float, float] = (1.0, 9.0)
    """Seconds for which a broker holds back a replica in sync, once its throttle is used up."""


def median_s(model: LatencyModel, leader: float, followers: Collection[float]) -> float:
    """Return the median seconds of a produce request.

    It waits in the leader and then in the slowest of the followers in sync.

    Args:
        model: the constants.
        leader: the share of its time for which the leader is busy, 0 to 1.
        followers: the same of each follower in sync; without any the leader alone counts.
    """
    return model.rest_s * (_slower(model, leader) + _slower(model, max(followers, default=0.0))) / 2


def _slower(model: LatencyModel, busy: float) -> float:
    return 1 / (1 - min(busy, model.most_busy))


def drawn_s(model: LatencyModel, median: float, chance: random.Random) -> float:
    """Return the seconds of one produce request of those with this median."""
    return median * math.exp(model.spread * chance.gauss())


def backoff_chance(model: LatencyModel, together: int) -> float:
    """Return the chance that a partition waits for a follower's back-off when its epoch rises.

    Args:
        model: the constants.
        together: the number of partitions whose epochs rise by one request.
    """
    return model.backoff_alone * math.pow(together, -model.backoff_power)


def late_share(model: LatencyModel, median: float, late_s: float) -> float:
    """Return the share of the produce requests with this median that take longer than `late_s`."""
    return 0.5 * math.erfc(math.log(late_s / median) / (model.spread * math.sqrt(2)))
