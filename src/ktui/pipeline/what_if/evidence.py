"""How far what was recorded carries: the one rule by which advice is given or withheld.

A way to carry a run out is advised where others like it were seen, and enough of them: no more
bytes a second into a broker, no higher throttle, as many replicas at once into a broker and no more
partitions at once than were recorded. Else it is said what would have to be.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ktui.planning.throttle_rates import ThrottleRates
from ktui.quantities import as_count, as_rate

LEAST_RUNS = 2
"""With fewer no run can be held against what others tell."""
LEAST_STEPS = 10
"""Steps that copy."""
TELLING_S = 10.0
"""So long some number of replicas at once has to have been copied to tell how fast that goes."""
FARTHEST_OFF = 0.5
"""A model that is further off, on the run itself, tells nothing of it under other limits."""
_TOLERANCE = 1.001
"""Rates are sums of rounded figures."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded of a cluster."""

    runs: int = 0
    steps: int = 0
    """Those that copy."""
    broker_bytes_s: float = 0.0
    """The most that went into one broker."""
    free: bool = False
    """Whether anything was copied that no throttle held up."""
    throttle: int = 0
    """The highest that held a copy up, bytes a second; others are as good as none."""
    fewest_at_once: int = 0
    """Replicas into one broker; of those numbers that were copied for `TELLING_S` in all."""
    most_at_once: int = 0
    partitions: int = 0
    """The most that were being reassigned at one time."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What a way to carry a run out makes use of, as it is played."""

    throttle: ThrottleRates
    broker_bytes_s: float
    fewest_at_once: int
    most_at_once: int
    partitions: int


def lacking(seen: Evidence) -> Iterator[str]:
    """Yield what has to be recorded before anything is advised."""
    if seen.runs < LEAST_RUNS:
        yield f"{as_count(LEAST_RUNS, 'run')} have to be recorded, and there is {seen.runs}"
    if seen.steps < LEAST_STEPS:
        yield f"{LEAST_STEPS} steps that copy have to be recorded, and there are {seen.steps}"


def beyond(use: Use, seen: Evidence) -> Iterator[str]:
    """Yield what of a way goes beyond what was recorded; nothing where it is within."""
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


def too_far_off(error: float | None) -> Iterator[str]:
    """Yield that the model is too far off a run, as (predicted - actual) / actual."""
    if error is not None and not abs(error) <= FARTHEST_OFF:
        yield f"what other runs tell is {abs(error):.0%} off for this one; record runs like it"
