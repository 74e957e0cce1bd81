"""A figure that was seen many times."""

from __future__ import annotations

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """Its percentiles."""

    p10: float
    p50: float
    p90: float
    count: int
    """Of how many."""
