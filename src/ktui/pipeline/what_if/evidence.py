"""The limits of the recorded evidence: the one rule that decides whether advice is given.

Limits and a throttle are advised only where enough was recorded under similar ones. They must need
no more bytes a second into a broker, no higher throttle and no more partitions at once. The number
of replicas at once into a broker must be within the recorded range. Otherwise the reason names the
recordings that would be needed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ktui.planning.throttle_rates import ThrottleRates
from ktui.quantities import as_count, as_rate

LEAST_RUNS = 2
"""With fewer runs, no run can be compared with a model of the others."""
LEAST_STEPS = 10
"""Counts steps that copy."""
LEAST_TESTED = 1
"""So many runs have to test the model: runs whose time a model of the others predicts."""
FARTHEST_OFF = 0.5
"""A model with a larger error on the run itself says nothing about that run under other limits."""
_TOLERANCE = 1.001
"""Rates are sums of rounded figures."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of the recordings of a cluster."""

    runs: int = 0
    steps: int = 0
    """The number of steps that copy."""
    broker_bytes_s: float = 0.0
    """The highest rate into one broker, bytes a second."""
    free: bool = False
    """Whether anything was copied without being held up by a throttle."""
    throttle: int = 0
    """The highest throttle that held a copy up, bytes a second; others are as good as none."""
    fewest_at_once: int = 0
    """The fewest replicas at once into one broker that were copied for `TELLING_S` in all."""
    most_at_once: int = 0
    """The most replicas at once into one broker that were copied for `TELLING_S` in all."""
    partitions: int = 0
    """The most partitions that were being reassigned at one time."""


class SimulatedUse(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of a run under some limits and a throttle, as simulated."""

    throttle: ThrottleRates
    broker_bytes_s: float
    fewest_at_once: int
    most_at_once: int
    partitions: int


def missing_evidence(seen: Evidence) -> Iterator[str]:
    """Yield what has to be recorded before anything can be advised."""
    if seen.runs < LEAST_RUNS:
        yield f"{as_count(LEAST_RUNS, 'run')} have to be recorded, and there is {seen.runs}"
    if seen.steps < LEAST_STEPS:
        yield f"{LEAST_STEPS} steps that copy have to be recorded, and there are {seen.steps}"


def beyond_evidence(use: SimulatedUse, seen: Evidence) -> Iterator[str]:
    """Yield each need that goes beyond what was recorded; nothing where all are within it."""
    rates = [use.throttle.every, *(each.bytes_s for each in use.throttle.brokers)]
    if None in rates and not seen.free:
        yield "nothing was recorded without a throttle"
    highest = max((rate for rate in rates if rate is not None), default=0)
    most = max(seen.throttle, seen.broker_bytes_s if seen.free else 0)
    if highest > most * _TOLERANCE:
        yield f"no throttle above {as_rate(most)} was recorded"
    if use.broker_bytes_s > seen.broker_bytes_s * _TOLERANCE:
        taken = as_rate(seen.broker_bytes_s)
        yield f"{as_rate(use.broker_bytes_s)} into a broker, and {taken} at most were recorded"
    if use.most_at_once > seen.most_at_once:
        yield (
            f"{use.most_at_once} at once into a broker, and {seen.most_at_once} at most were "
            "recorded"
        )
    if use.fewest_at_once < seen.fewest_at_once:
        yield (
            f"{use.fewest_at_once} at once into a broker, and {seen.fewest_at_once} at least were "
            "recorded"
        )
    if use.partitions > seen.partitions:
        yield (
            f"{as_count(use.partitions, 'partition')} at once, and {seen.partitions} at most were "
            "recorded"
        )


class HeldOutTests(msgspec.Struct, frozen=True):
    """How a cluster's runs compare with what models of the other runs predict for them."""

    runs: int = 0
    low: float = 1.0
    """The shortest real time as a multiple of the predicted one: p10, or the least of few."""
    high: float = 1.0
    """The longest one: p90, or the most of few."""

    def widened(self, predicted_s: float, low_s: float, high_s: float) -> tuple[float, float]:
        """Return the range of a prediction that has the errors of earlier ones in it, too."""
        return min(low_s, predicted_s * self.low), max(high_s, predicted_s * self.high)


def untested(tests: HeldOutTests) -> Iterator[str]:
    """Yield a reason where no run has tested the model."""
    if tests.runs < LEAST_TESTED:
        yield (
            "no prediction was compared with a run; record one that keeps its limits and its "
            "throttle to its end"
        )


def model_too_far_off(error: float | None) -> Iterator[str]:
    """Yield a reason where the model's error on a run is too large.

    Args:
        error: (predicted - actual) / actual; None where it is not known.
    """
    if error is not None and not abs(error) <= FARTHEST_OFF:
        yield f"predicted from other runs, this one is {abs(error):.0%} off; record runs like it"
