"""What insights need of recordings, computed once for each listing and each minute.

So insights read a few rows of each move, and no samples.
"""

from __future__ import annotations

from math import log

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.enforce_schema import fit_to_table
from ktui.pipeline.lake.records import Sample
from ktui.pipeline.lake.schema import require_columns
from ktui.pipeline.lake.tables import INTAKES, SAMPLES
from ktui.pipeline.tables.brokers import begin_of_minute
from ktui.pipeline.tables.stall_cause import (
    HELD_AFTER_MS,
    IN_SYNC,
    LOOKED_AT_MS,
    MOST_TELLING,
    STALLED,
    cause_in,
)
from ktui.pipeline.tables.windows import LISTING, PARTITION, as_timestamp

CLASS_WIDTH = 1.02
"""Rates within 1% of each other are one class: a listing has few of them, however long it is."""

_JUDGED = (
    "topic", "partition", "t", "leader", "replicas", "isr", "adding", "removing", "offline", "down",
    "described", "ends", "rates",
)  # fmt: skip
"""The columns of a sample that show the cause of a stall."""


def copies_by_rate(pairs: DataFrame) -> DataFrame:
    """Count each listing's measured rates between two brokers, by class.

    Args:
        pairs: as returned by `measures.rate_pairs`.

    Returns:
        A listing's key, `listing_t`, and `copies`, as in SPANS.
    """
    bytes_s = F.col("messages") * F.col("message_bytes") * 1000 / F.col("ms")
    rate_class = F.round(F.log(F.greatest(bytes_s, F.lit(1.0))) / log(CLASS_WIDTH)).cast("int")
    return (
        pairs.where("messages > 0 AND message_bytes IS NOT NULL AND leader IS NOT NULL")
        .groupBy(*LISTING, "listing_t", "leader", "broker", rate_class.alias("rate_class"))
        .agg(F.count("*").alias("count"))
        .groupBy(*LISTING, "listing_t")
        .agg(
            F.sort_array(F.collect_list(F.struct("leader", "broker", "rate_class", "count"))).alias(
                "copies"
            )
        )
    )


def rate_of_class(rate_class: str) -> Column:
    """Return the rate in the middle of a class, in B/s."""
    return F.exp(F.col(rate_class) * log(CLASS_WIDTH))


def stalls_with_cause(intervals: DataFrame, samples: DataFrame) -> DataFrame:
    """Find each listing's stalls, and the most telling cause that their first minute shows.

    Stalls, their samples and the cause are those of `stall_cause.stalls`,
    `stall_cause.cause_window` and `stall_cause.cause_in`.

    Args:
        intervals: as returned by `intervals.intervals`.
        samples: the table SAMPLES; shadowed samples do not count.

    Returns:
        A listing's key, `listing_t`, and `stalls`, as in SPANS.
    """
    held = (F.col("state") == IN_SYNC) & (F.col("ended_t") - F.col("began_t") > HELD_AFTER_MS)
    stalled = intervals.where((F.col("state") == STALLED) | held).select(
        *LISTING, "listing_t", "began_t", "ended_t"
    )
    visible = require_columns(samples, SAMPLES, (*_JUDGED, "shadowed")).where(~F.col("shadowed"))
    seen = visible.select(*PARTITION, "t", F.struct(*_JUDGED).alias("it"))
    same = [F.col(f"one.{name}").eqNullSafe(F.col(f"other.{name}")) for name in PARTITION]
    until_t = F.greatest(F.least("ended_t", F.col("began_t") + LOOKED_AT_MS), F.col("began_t") + 1)
    both = stalled.alias("one").join(
        seen.alias("other"), [*same, F.col("t") >= F.col("began_t"), F.col("t") < until_t], "left"
    )
    # Spark warns about annotations that it cannot evaluate: a lambda has none
    place = F.udf(lambda sample: _place(sample), "int", useArrow=False)  # noqa: PLW0108
    listing = [F.col(f"one.{name}").alias(name) for name in (*LISTING, "listing_t")]
    judged = both.groupBy(*listing, "began_t", "ended_t").agg(F.min(place("it")).alias("place"))
    causes = F.array(*(F.lit(cause.value) for cause in MOST_TELLING))
    stall = F.struct(
        "began_t",
        "ended_t",
        F.element_at(causes, F.col("place") + 1).alias("cause"),
    )
    return judged.groupBy(*LISTING, "listing_t").agg(
        F.sort_array(F.collect_list(stall)).alias("stalls")
    )


def _place(sample: Row | None) -> int:
    """Return the place of a sample's cause in `MOST_TELLING`."""
    if sample is None:
        return len(MOST_TELLING) - 1
    cause, _ = cause_in(msgspec.convert(sample.asDict(recursive=True), Sample))
    return MOST_TELLING.index(cause)


def intakes(pairs: DataFrame) -> DataFrame:
    """Sum up the bytes into each broker and minute, by the number of replicas added at once.

    A broker reports all its replicas in one response, so readings of the same time belong together.
    Times at which the message size of some replica is not known are left out, and so are those in
    which nothing was copied, unless a throttle may have been the reason: bytes come through it in
    gulps. Until a replica has its first bytes, it waits for them, whatever the throttle.

    Args:
        pairs: as returned by `measures.rate_pairs`.
    """
    grew, size = F.col("messages") > 0, F.col("message_bytes")
    held_up = F.col("begun") & F.col("throttle").isNotNull() & F.col("leader").isNotNull()
    readings = (
        pairs.where(grew | held_up)
        .groupBy("cluster_id", "broker", "read_t")
        .agg(
            F.count_if(grew).alias("at_once"),
            F.avg("ms").alias("ms"),
            F.sum(F.when(grew, F.col("messages") * size).otherwise(0)).alias("bytes"),
            F.max("throttle").alias("throttle"),
            F.count_if(grew & size.isNull()).alias("unknown"),
        )
        .where("unknown = 0")
    )
    minute_t = begin_of_minute(F.col("read_t")).alias("minute_t")
    # rounded before they are summed, so the order of the sum cannot matter
    summed = readings.groupBy("cluster_id", "broker", minute_t, "at_once", "throttle").agg(
        F.min("read_t").alias("t"),
        F.sum(F.floor(F.col("ms") + 0.5)).alias("ms"),
        F.sum(F.floor(F.col("bytes") + 0.5)).alias("bytes"),
    )
    return fit_to_table(summed.withColumn("minute", as_timestamp("minute_t")), INTAKES)
