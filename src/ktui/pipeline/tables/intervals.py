"""The progress of a listed partition as intervals: adding, catching up, stalled, in sync."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.tables.listings import GAP_MS, by_broker
from ktui.pipeline.tables.windows import LISTING, ORDER, before, in_order, so_far

STALLED_AFTER_MS = 30_000
"""A partition whose missing replicas have not grown for this long has been stalled since the first
sample that saw no growth."""

ADDING = "adding"
CATCHING_UP = "catching up"
STALLED = "stalled"
IN_SYNC = "in sync"

_SAMPLE = (*LISTING, "listing_t", *ORDER, "next_t", "described", "missing")


def intervals(listed: DataFrame) -> DataFrame:
    """Compute the intervals in which a partition was in one state.

    Args:
        listed: as returned by `listings.listed`.

    Returns:
        A partition's key, `listing`, `listing_t`, `state`, `began_t`, `ended_t` (ms), `open`.
    """
    same = F.lag("state").over(in_order(*LISTING)).eqNullSafe(F.col("state"))
    until_t = F.when(F.col("next_t") - F.col("t") <= GAP_MS, F.col("next_t")).otherwise(F.col("t"))
    return (
        _with_state(listed)
        .withColumn("begins", ~same)
        .withColumn("interval", F.count_if("begins").over(so_far(*LISTING)))
        .where(F.col("state").isNotNull())
        .groupBy(*LISTING, "listing_t", "interval", "state")
        .agg(
            F.min("t").alias("began_t"),
            F.max(until_t).alias("ended_t"),
            F.bool_or(F.col("next_t").isNull()).alias("open"),
        )
        .drop("interval")
    )


def _with_state(listed: DataFrame) -> DataFrame:
    """Add `state` to each listed sample; null where the partition could not be described."""
    past = so_far(*LISTING)
    headway_t = F.coalesce(F.max(F.when(F.col("headway"), F.col("t"))).over(past), "listing_t")
    is_in_sync = F.col("described") & (F.col("missing") == 0)
    is_behind = F.col("described") & (F.col("missing") > 0)
    of_stretch = Window.partitionBy(*LISTING, "stretch")
    still_until_t = F.max(F.when(is_behind, F.col("t"))).over(of_stretch)
    still = ~F.col("headway") & (still_until_t - headway_t >= STALLED_AFTER_MS)
    state = (
        F.when(~F.col("described"), F.lit(None))
        .when(is_in_sync, IN_SYNC)
        .when(~F.col("read"), ADDING)
        .when(still, STALLED)
        .otherwise(CATCHING_UP)
    )
    return (
        _with_headway(listed)
        .withColumn("stretch", F.count_if(F.col("headway") | is_in_sync).over(past))
        .withColumn("state", state)
    )


def _with_headway(listed: DataFrame) -> DataFrame:
    """Add what the missing replicas of each listed sample have done.

    `read`: by now a log end offset of one was read. `headway`: one had its first end offset, or a
    greater one than before.
    """
    end, last_end = F.col("end"), F.last("end", ignorenulls=True).over(before(*LISTING, "broker"))
    grown = end.isNotNull() & (F.col("last_end").isNull() | (end > F.col("last_end")))
    read = F.coalesce(end, F.col("last_end")).isNotNull()
    return (
        by_broker(listed, "ends")
        .withColumn("missing", F.size("missing"))
        .withColumn("last_end", last_end)
        .groupBy(*_SAMPLE)
        .agg(_any_missing(grown).alias("headway"), _any_missing(read).alias("read"))
    )


def _any_missing(fact: Column) -> Column:
    return F.bool_or(F.col("is_missing") & fact)
