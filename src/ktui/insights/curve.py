"""How much a broker takes in, by how many replicas it adds at once."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ktui.insights.spread import NonNegative

_FARTHEST = 2
"""So many times as many replicas at once as were seen are told; what more would do is not known."""


class RateCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that adds n replicas at once takes in R n / (n + h) bytes a second.

    R when many come at once, R / (1 + h) when one comes alone. Under a throttle T it takes in no
    more than e T.
    """

    most_bytes_s: Annotated[float, msgspec.Meta(gt=0)]
    """R."""
    half_at: NonNegative
    """h: so many replicas at once take in half of R."""
    most_at_once: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    """The most that were seen."""
    throttled: NonNegative = 1.0
    """e: the share of its throttle that a broker takes in."""
    low: NonNegative = 1.0
    """What the slowest brokers took in, as a share of what this tells: p10."""
    high: NonNegative = 1.0
    """The fastest: p90."""

    known_to: NonNegative | None = None
    """Of copies that a throttle held up, each of them: the highest throttle, bytes a second. How
    fast copies go beyond it is assumed, and so is R. None where R was seen."""

    def carries(self, throttle: int | None) -> bool:
        """Whether what this tells under a throttle, or under none, rests on what was seen."""
        return self.known_to is None or (throttle is not None and throttle <= self.known_to)

    def bytes_s(self, at_once: int, throttle: int | None) -> float:
        """Tell what goes into a broker, in all."""
        told = min(at_once, _FARTHEST * self.most_at_once)
        free = self.most_bytes_s * told / (told + self.half_at)
        return max(1.0, free if throttle is None else min(free, self.throttled * throttle))
