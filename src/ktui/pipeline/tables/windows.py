"""What rows are told apart and put in order by."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.schema import KEY

PARTITION = tuple(field.name for field in KEY)
LISTING = (*PARTITION, "listing")
ORDER = ("t", "session", "seq")
"""The order of a partition's samples; no two are at the same place."""


def in_order(*keys: str) -> WindowSpec:
    """Give the samples of each key in their order."""
    return Window.partitionBy(*keys).orderBy(*ORDER)


def so_far(*keys: str) -> WindowSpec:
    """Give the samples of each key up to and including this one."""
    return in_order(*keys).rowsBetween(Window.unboundedPreceding, Window.currentRow)


def before(*keys: str) -> WindowSpec:
    """Give the samples of each key before this one."""
    return in_order(*keys).rowsBetween(Window.unboundedPreceding, -1)


def place() -> Column:
    """Give a sample's place in the order, to find the first or the last one by."""
    return F.struct(*ORDER)


def moment(t: str) -> Column:
    """Give milliseconds since 1970 as a timestamp."""
    return F.timestamp_millis(F.col(t))


def joined(left: DataFrame, right: DataFrame, on: Sequence[str]) -> DataFrame:
    """Join to each row of `left` what `right` has of its key, if anything; null equals null."""
    same = [F.col(f"left.{name}").eqNullSafe(F.col(f"right.{name}")) for name in on]
    new = [F.col(f"right.{name}") for name in right.columns if name not in on]
    both = left.alias("left").join(right.alias("right"), same, "left")
    return both.select("left.*", *new)
