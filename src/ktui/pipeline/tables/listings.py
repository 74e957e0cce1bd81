"""Listings: spans without a gap in which the controller lists a partition as being reassigned."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.schema import require_columns
from ktui.pipeline.lake.tables import SAMPLES
from ktui.pipeline.tables.windows import PARTITION, in_order, so_far

GAP_MS = 60_000
"""Samples that are further apart say nothing about the time between them."""

_NEEDED = (
    *PARTITION, "t", "session", "seq", "replicas", "isr", "leader", "adding", "removing",
    "described", "ends", "log_start", "sizes", "rates",
)  # fmt: skip


def listed_samples(samples: DataFrame) -> DataFrame:
    """Select the samples of partitions being reassigned, and add the listing of each.

    Shadowed samples are left out. New columns: `listing` (counts the listings of a partition) and
    `listing_t` (ms, of the listing's first sample). `next_t` (ms), `next_replicas` and `next_isr`
    are those of the partition's next sample, listed or not; null for the last one.
    """
    samples = require_columns(samples, SAMPLES, (*_NEEDED, "shadowed"))
    order, past = in_order(*PARTITION), so_far(*PARTITION)
    is_listed = (F.size("adding") > 0) | (F.size("removing") > 0)
    follows = F.lag(is_listed).over(order) & (F.col("t") - F.lag("t").over(order) <= GAP_MS)
    begins = is_listed & ~F.coalesce(follows, F.lit(col=False))
    return (
        samples.where(~F.col("shadowed"))
        .select(
            *_NEEDED,
            is_listed.alias("is_listed"),
            begins.alias("begins"),
            F.lead("t").over(order).alias("next_t"),
            F.lead("replicas").over(order).alias("next_replicas"),
            F.lead("isr").over(order).alias("next_isr"),
        )
        .withColumn("listing", F.count_if("begins").over(past))
        .withColumn("listing_t", F.max(F.when(F.col("begins"), F.col("t"))).over(past))
        .where("is_listed")
        .drop("is_listed", "begins")
    )


def by_broker(samples: DataFrame, *figures: str) -> DataFrame:
    """Repeat each listed sample for every broker that is being added or has one of `figures`.

    A sample without such a broker appears once, with a null `broker`. `missing` are the brokers
    being added that are not in the ISR. `nth` counts the brokers of a sample, from 0. Further new
    columns are `broker`, `is_adding` and `is_missing`. `end`, `read_t`, `bytes` and `throttle` (the
    follower rate) are those of that broker, or null.

    Args:
        samples: as returned by `listed_samples`.
        figures: any of the columns `ends` and `sizes`.
    """
    brokers = F.col("adding")
    for each in figures:
        brokers = F.array_union(brokers, F.col(f"{each}.broker"))
    return (
        samples.withColumn("missing", F.array_except("adding", "isr"))
        .select("*", F.posexplode_outer(brokers).alias("nth", "broker"))
        .select(
            "*",
            _has(F.col("adding")).alias("is_adding"),
            _has(F.col("missing")).alias("is_missing"),
            figure_of_broker("ends", "end"),
            figure_of_broker("ends", "read_t"),
            figure_of_broker("sizes", "bytes"),
            figure_of_broker("rates", "follower").alias("throttle"),
        )
    )


def _has(brokers: Column) -> Column:
    return F.coalesce(F.array_contains(brokers, F.col("broker")), F.lit(col=False))


def figure_of_broker(figures: str, name: str, of: str = "broker") -> Column:
    """Return a figure of the broker that the column `of` names; null where there is none."""
    at = F.array_position(F.col(f"{figures}.broker"), F.col(of)) - 1
    return F.get(F.col(f"{figures}.{name}"), at.cast("int")).alias(name)
