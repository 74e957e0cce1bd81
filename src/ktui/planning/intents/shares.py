"""The share of a load that each broker is to have, by its weight."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil, floor

import msgspec

from ktui.planning.intents.layout import Layout

_HAIR = 1e-9
"""Rounding of floating-point numbers, as a part of a share."""


def weighted_shares(
    layout: Layout, brokers: Collection[int], loads: Mapping[int, int]
) -> dict[int, float]:
    """Return each broker's share, by weight, of what some brokers have together."""
    total = sum(loads.get(broker, 0) for broker in brokers)
    weights = {broker: layout.weight(broker) for broker in brokers}
    of_all = sum(weights.values())
    return {broker: total * weight / of_all if of_all else 0 for broker, weight in weights.items()}


class Band(msgspec.Struct, frozen=True):
    """The loads with which a broker counts as even with the others."""

    low: float
    high: float

    @classmethod
    def around(cls, share: float, tolerance: float, *, whole: bool) -> Band:
        """Return the band around a share. Where loads are counts, its edges are whole numbers."""
        low, high = share * (1 - tolerance), share * (1 + tolerance)
        if whole:
            return cls(min(ceil_of(low), floor_of(share)), max(floor_of(high), ceil_of(share)))
        return cls(low - share * _HAIR, high + share * _HAIR)

    def off(self, load: float) -> float:
        """Return how far a load is out of the band."""
        return max(load - self.high, self.low - load, 0)


def floor_of(share: float) -> int:
    """Return the next lower whole number, where rounding errors do not count."""
    return floor(share + max(share, 1) * _HAIR)


def ceil_of(share: float) -> int:
    """Return the next higher whole number, where rounding errors do not count."""
    return ceil(share - max(share, 1) * _HAIR)
