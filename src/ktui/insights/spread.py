"""A figure that was seen many times."""

from __future__ import annotations

from typing import Annotated

import msgspec

NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
"""A rate, a size, a time: what is read of a file must not lead a run's forecast astray."""


class Spread(msgspec.Struct, frozen=True):
    """Its percentiles."""

    p10: NonNegative
    p50: NonNegative
    p90: NonNegative
    count: NonNegativeInt
    """Of how many."""
