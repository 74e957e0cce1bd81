"""A broker's intake rate, as a function of how many replicas it adds at once."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ktui.insights.spread import NonNegative

_EXTRAPOLATION = 2
"""The curve holds up to this multiple of the most replicas seen at once; beyond is unknown."""


class RateCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that adds n replicas at once takes in R n / (n + h) bytes a second.

    The rate is R for many replicas at once, and R / (1 + h) for a single one. Under a throttle T,
    a broker takes in at most e T.
    """

    most_bytes_s: Annotated[float, msgspec.Meta(gt=0)]
    """R."""
    half_at: NonNegative
    """h: the number of replicas at once that takes in half of R."""
    most_at_once: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    """The most replicas at once that were seen."""
    throttled: NonNegative = 1.0
    """e: the share of a throttle that its broker takes in."""
    low: NonNegative = 1.0
    """The rate of the slowest brokers as a share of the curve's: p10."""
    high: NonNegative = 1.0
    """The rate of the fastest brokers as a share of the curve's: p90."""

    unthrottled_runs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many runs showed R: of each, copies that no throttle held up were seen for ten seconds.

    A run's machines are as busy as they are in its hour, so one run says little of the next.
    """

    known_to: NonNegative | None = None
    """The highest throttle, in bytes a second, where a throttle held up every copy.

    The speed of copies above that throttle is assumed, and so is R. None where R was seen.
    """

    def carries(self, throttle: int | None) -> bool:
        """Whether the curve rests on observed rates under this throttle, or under none."""
        return self.known_to is None or (throttle is not None and throttle <= self.known_to)

    @property
    def holds_to(self) -> int:
        """The number of replicas at once beyond which more of them are taken to bring no more."""
        return _EXTRAPOLATION * self.most_at_once

    def bytes_s(self, at_once: float, throttle: int | None) -> float:
        """Return the rate into a broker, over all its replicas, in bytes a second."""
        count = min(at_once, self.holds_to)
        rate = self.most_bytes_s * count / (count + self.half_at)
        return max(1.0, rate if throttle is None else min(rate, self.throttled * throttle))
