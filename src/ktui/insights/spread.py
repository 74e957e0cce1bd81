"""Percentiles of a repeatedly measured figure, and checked number types."""

from __future__ import annotations

from typing import Annotated

import msgspec

NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
"""A rate, size or time. Values from a file must not lead a run's forecast astray."""


class Spread(msgspec.Struct, frozen=True):
    """The percentiles of a figure over many measurements."""

    p10: NonNegative
    p50: NonNegative
    p90: NonNegative
    count: NonNegativeInt
    """The number of measurements."""
