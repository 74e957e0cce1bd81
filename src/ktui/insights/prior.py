"""The rates that a run expects before it has measurements of its own: those of earlier runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from ktui.json_text import checked_moment

NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
"""A rate, size or time. Values from a file must not lead a run's forecast astray."""


class Spread(msgspec.Struct, frozen=True):
    """The percentiles of a figure over many measurements."""

    p10: NonNegative
    p50: NonNegative
    p90: NonNegative
    count: NonNegativeInt


_EXTRAPOLATION = 2
"""The curve holds up to this multiple of the most replicas seen at once; beyond is unknown."""


class RateCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that adds n replicas at once takes in R n / (n + h) bytes a second.

    The rate is R for many replicas, and R / (1 + h) for one. Under a throttle T, it is at most e T.
    """

    most_bytes_s: Annotated[float, msgspec.Meta(gt=0)]
    """R."""
    half_at: NonNegative
    """h: the number of replicas at once that takes in half of R."""
    most_at_once: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    throttled: NonNegative = 1.0
    """e: the share of a throttle that its broker takes in."""
    low: NonNegative = 1.0
    """The rate of the slowest brokers as a share of the curve's: p10."""
    high: NonNegative = 1.0
    """The rate of the fastest brokers as a share of the curve's: p90."""

    unthrottled_runs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many runs showed R: each for ten seconds of copies that no throttle held up."""

    known_to: NonNegative | None = None
    """The highest throttle (bytes a second) where one held up every copy, and R is assumed; else
    None.
    """

    def carries(self, throttle: int | None) -> bool:
        return self.known_to is None or (throttle is not None and throttle <= self.known_to)

    @property
    def holds_to(self) -> int:
        """The number of replicas at once beyond which more of them are taken to bring no more."""
        return _EXTRAPOLATION * self.most_at_once

    def bytes_s(self, at_once: float, throttle: int | None) -> float:
        count = min(at_once, self.holds_to)
        rate = self.most_bytes_s * count / (count + self.half_at)
        return max(1.0, rate if throttle is None else min(rate, self.throttled * throttle))


class Prior(msgspec.Struct, frozen=True, omit_defaults=True):
    """The speed of earlier runs on the same cluster, and what they were like, where known."""

    replica_bytes_s: Spread
    """Bytes a second into one replica that is being added, over whole moves."""
    step_s: NonNegative
    """Seconds of a step beside copying: polls, joining the ISR, elections."""
    curve: RateCurve
    """Bytes a second into a broker, over all the replicas that it is adding."""
    runs: NonNegativeInt
    """The number of runs behind these figures; 0 if they come from other people's moves."""
    alone: dict[int, NonNegative] = {}
    """Bytes a second into a single replica without a throttle, by receiver, where it is not usual.
    """
    onto: tuple[int, ...] = ()
    """The brokers that received copies; empty where that is not known."""
    throttle: NonNegativeInt | None = None
    """The highest throttle of copies, in bytes a second; None where none had one, or is known."""
    largest: NonNegativeInt | None = None
    """The bytes of the largest partition; None where that is not known."""
    brokers: NonNegativeInt | None = None
    """The number of brokers of the cluster; None where that is not known."""
    at: datetime | None = None
    """When the last of these copies were seen; None where that is not known."""

    def __post_init__(self) -> None:
        if self.at is not None:
            checked_moment(self.at)
