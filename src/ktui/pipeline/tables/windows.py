"""Keys and order of samples, windows over them, and small column helpers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.schema import KEY
from ktui.pipeline.united_times import Time

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


def fetch_all(results: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
    """Fetch the rows of several results in one job: each job costs more than so few rows do."""
    named = [rows.select(F.struct(*rows.columns).alias(name)) for name, rows in results.items()]
    together = reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), named)
    found: dict[str, list[Row]] = {name: [] for name in results}
    for row in together.collect():
        ((name, value),) = ((name, row[name]) for name in results if row[name] is not None)
        found[name].append(value)
    for values in found.values():
        values.sort(key=repr)  # sums of floats depend on the order, which Spark leaves open
    return found


def is_among(times: Mapping[str, Iterable[Time]]) -> Column:
    """Select samples by their folders, and by `t`, in the times of each cluster."""
    found = (_is_in(cluster, time) for cluster, of in sorted(times.items()) for time in of)
    return reduce(Column.__or__, found, F.lit(col=False))


def _is_in(cluster: str, time: Time) -> Column:
    first, last = time
    found = (
        (F.col("cluster_id") == cluster) & (F.col("date") >= _day(first)) & (F.col("t") >= first)
    )
    return found if last is None else found & (F.col("date") <= _day(last)) & (F.col("t") <= last)


def _day(t: int) -> Column:
    return F.to_date(F.timestamp_millis(F.lit(t)))
