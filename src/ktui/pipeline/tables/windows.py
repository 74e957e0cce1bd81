"""Keys and order of samples, windows over them, and small column helpers."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.schema import KEY

PARTITION = tuple(field.name for field in KEY)
LISTING = (*PARTITION, "listing")
ORDER = ("t", "session", "seq")
"""The columns that order a partition's samples; no two samples are equal in all of them."""


def in_order(*keys: str) -> WindowSpec:
    """Return the window over the samples of each key, in order."""
    return Window.partitionBy(*keys).orderBy(*ORDER)


def so_far(*keys: str) -> WindowSpec:
    """Return the window over the samples of each key up to and including the current one."""
    return in_order(*keys).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def before(*keys: str) -> WindowSpec:
    """Return the window over the samples of each key before the current one."""
    return in_order(*keys).rowsBetween(Window.unboundedPreceding, -1)


def sample_order() -> Column:
    """Return a sample's place in the order, for finding the first or the last sample."""
    return F.struct(*ORDER)


def as_timestamp(t: str) -> Column:
    """Convert milliseconds since 1970 to a timestamp."""
    return F.timestamp_millis(F.col(t))


def left_join_null_safe(left: DataFrame, right: DataFrame, on: Sequence[str]) -> DataFrame:
    """Left-join `right` to `left` by a key; null equals null."""
    same = [F.col(f"left.{name}").eqNullSafe(F.col(f"right.{name}")) for name in on]
    new = [F.col(f"right.{name}") for name in right.columns if name not in on]
    both = left.alias("left").join(right.alias("right"), same, "left")
    return both.select("left.*", *new)
