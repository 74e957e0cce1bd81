"""Measurements of the copying in each listing: how much, how fast, under which throttle."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.tables.listings import GAP_MS, by_broker, figure_of_broker
from ktui.pipeline.tables.windows import LISTING, ORDER, in_order, sample_order


def summarize_listings(listed: DataFrame) -> DataFrame:
    """Sum up each listing.

    Args:
        listed: as returned by `listings.listed`.

    Returns:
        One row per listing: its key, `listing_t`; `looks` (the number of samples); `first` and
        `last`, the needed columns of those samples; `added` (brokers, sorted); `messages` and
        `bytes` copied, null where nothing is known; `throttle_min` and `throttle_max`, B/s.
    """
    start = F.col("start.log_start")
    messages = F.aggregate(
        "ends",
        F.lit(0).cast("long"),
        lambda sum_, end: sum_ + F.greatest(end - start, F.lit(0)),
    )
    is_known = start.isNotNull() & (F.size("ends") > 0)
    return (
        _of_brokers(listed)
        .groupBy(*LISTING, "listing_t")
        .agg(
            F.sum("looks").alias("looks"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.min("start").alias("start"),
            F.sort_array(F.collect_list(F.when(F.col("is_added"), F.col("broker")))).alias("added"),
            F.collect_list(F.when(F.col("is_added"), F.col("end"))).alias("ends"),
            F.collect_list(F.when(F.col("is_added"), F.struct("broker", "bytes"))).alias("sizes"),
            F.max("led").alias("led"),
            F.min("throttle_min").alias("throttle_min"),
            F.max("throttle_max").alias("throttle_max"),
        )
        .withColumns({"messages": F.when(is_known, messages), "bytes": _bytes()})
        .drop("start", "ends", "sizes", "led")
    )


def _bytes() -> Column:
    """Sum up the sizes of a listing's added replicas.

    A replica in the ISR is as large as its leader's.
    """
    last = F.col("last")
    followed = F.when(last.next_t - last.t <= GAP_MS, last.next_isr)
    in_sync = F.array_union(last.isr, F.coalesce(followed, F.array().cast("array<int>")))
    sizes = F.transform(
        "sizes",
        lambda own: F.when(
            F.array_contains(in_sync, own.broker), F.greatest(own.bytes, "led.bytes")
        ).otherwise(own.bytes),
    )
    known = F.array_compact(sizes)
    total = F.aggregate(known, F.lit(0).cast("long"), lambda sum_, size: sum_ + size)
    return F.when(F.size(known) > 0, total)


def _of_brokers(listed: DataFrame) -> DataFrame:
    """Sum up each listing by broker; every sample counts under at least one broker."""
    first = F.struct(*ORDER, "replicas", "adding")
    last = F.struct(*ORDER, "replicas", "removing", "isr", "next_t", "next_replicas", "next_isr")
    start = F.when(F.col("log_start").isNotNull(), F.struct(*ORDER, "log_start"))
    led = figure_of_broker("sizes", "bytes", of="leader")
    throttle = F.when(F.col("is_adding"), F.col("throttle"))
    return (
        by_broker(listed, "ends", "sizes")
        .groupBy(*LISTING, "listing_t", "broker")
        .agg(
            F.count_if(F.coalesce("nth", F.lit(0)) == 0).alias("looks"),
            F.min(first).alias("first"),
            F.max(last).alias("last"),
            F.min(start).alias("start"),
            F.bool_or("is_adding").alias("is_added"),
            F.max_by("end", F.when(F.col("end").isNotNull(), sample_order())).alias("end"),
            F.max_by("bytes", F.when(F.col("bytes").isNotNull(), sample_order())).alias("bytes"),
            F.max(F.when(led.isNotNull(), F.struct(*ORDER, led))).alias("led"),
            F.min(throttle).alias("throttle_min"),
            F.max(throttle).alias("throttle_max"),
        )
    )


def rate_pairs(listed: DataFrame) -> DataFrame:
    """Compute how much each adding replica grew between two readings of its log end offset.

    A replica short of the leader's log start jumps there, which is no growth.

    Args:
        listed: as returned by `listings.listed`.

    Returns:
        A listing's key, `listing_t`, `broker`, `leader`; `read_t` of the second reading, and `ms`
        between the two; `messages`; `begun`, whether the replica had any before; `message_bytes`, a
        message's mean size on the leader, null where that is not known; `throttle`, the broker's
        follower rate then, B/s or null.
    """
    last = F.lag(F.struct("end", "read_t", "is_adding")).over(in_order(*LISTING, "broker"))
    messages, ms = F.col("end") - F.col("last.end"), F.col("read_t") - F.col("last.read_t")
    held = figure_of_broker("ends", "end", of="leader") - F.col("log_start")
    return (
        by_broker(listed, "ends")
        .where("end IS NOT NULL")
        .withColumn("last", last)
        .where("is_adding AND last.is_adding")
        .where("log_start IS NULL OR last.end >= log_start")
        .select(
            *LISTING,
            "listing_t",
            "broker",
            "leader",
            "read_t",
            "throttle",
            ms.alias("ms"),
            messages.alias("messages"),
            (F.col("last.end") > F.coalesce("log_start", F.lit(0))).alias("begun"),
            F.when(held > 0, figure_of_broker("sizes", "bytes", of="leader") / held).alias(
                "message_bytes"
            ),
        )
        .where((F.col("messages") >= 0) & F.col("ms").between(1, GAP_MS))
    )
