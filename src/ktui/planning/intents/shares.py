"""The share of a load that each broker is to have, by its weight."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil, floor

import msgspec

from ktui.planning.intents.layout import Layout

_HAIR = 1e-9
"""Rounding of floating-point numbers, as a part of a share."""


def weighted_shares(
    layout: Layout,
    brokers: Collection[int],
    loads: Mapping[int, int],
    most: Mapping[int, int] | None = None,
) -> dict[int, float]:
    """Return each broker's share, by weight, of what some brokers have together.

    Args:
        layout: the cluster, with the weights.
        brokers: the brokers.
        loads: what each has.
        most: what each can have at most. What one cannot have, the others share.
    """
    left = float(sum(loads.get(broker, 0) for broker in brokers))
    shares = dict.fromkeys(sorted(brokers), 0.0)
    sharing = {broker: layout.weight(broker) for broker in shares if layout.weight(broker) > 0}
    while sharing:
        unit = left / sum(sharing.values())
        full = [
            broker
            for broker, weight in sharing.items()
            if most is not None and most[broker] < unit * weight
        ]
        if most is None or not full:
            return shares | {broker: unit * weight for broker, weight in sharing.items()}
        for broker in full:
            shares[broker] = most[broker]
            left -= most[broker]
            del sharing[broker]
    return shares


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
