"""Listings: spans without a gap in which the controller lists a partition; windows over samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Row, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.engine import in_pairs
from ktui.pipeline.lake.records import GAP_MS, IN_SYNC, STALLED, STALLED_AFTER_MS
from ktui.pipeline.lake.schema import KEY, Time, require_columns, union_by_name
from ktui.pipeline.lake.tables import SAMPLES

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
    together = union_by_name(*named)
    found: dict[str, list[Row]] = {name: [] for name in results}
    for row in together.collect():
        ((name, value),) = ((name, row[name]) for name in results if row[name] is not None)
        found[name].append(value)
    for values in found.values():
        values.sort(key=repr)  # sums of floats depend on the order, which Spark leaves open
    return found


def is_among(times: Mapping[str, Iterable[Time]]) -> Column:
    """Select samples by their folders, and by `t`, in the times of each cluster."""
    found = [_is_in(cluster, time) for cluster, of in sorted(times.items()) for time in of]
    return in_pairs(Column.__or__, [F.lit(col=False), *found])


def _is_in(cluster: str, time: Time) -> Column:
    first, last = time
    found = (
        (F.col("cluster_id") == cluster) & (F.col("date") >= _day(first)) & (F.col("t") >= first)
    )
    return found if last is None else found & (F.col("date") <= _day(last)) & (F.col("t") <= last)


def _day(t: int) -> Column:
    return F.to_date(F.timestamp_millis(F.lit(t)))


_NEEDED = (
    *PARTITION, "t", "session", "seq", "replicas", "isr", "leader", "adding", "removing",
    "described", "ends", "log_start", "sizes", "rates",
)  # fmt: skip


def listed_samples(samples: DataFrame) -> DataFrame:
    """Select the unshadowed samples of partitions being reassigned, and number their listings.

    `listing_t` is of the listing's first sample (ms). `next_t` (ms), `next_replicas` and `next_isr`
    are of the partition's next sample, listed or not; null without one.
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
    """Repeat each listed sample for every `broker` being added or with one of `figures`.

    These are `ends` and `sizes`. A sample without such a broker appears once, with null. `missing`
    are added brokers outside the ISR, `nth` counts the brokers of a sample from 0. `end`, `read_t`,
    `bytes` and `throttle` (follower rate) are of that broker, or null.
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


ADDING = "adding"
CATCHING_UP = "catching up"

_SAMPLE = (*LISTING, "listing_t", *ORDER, "next_t", "described", "missing")


def intervals(listed: DataFrame) -> DataFrame:
    """Compute the intervals, in ms, in which a partition was in one state."""
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
    """Add `read` (an end offset of a missing replica is known) and `headway` (one is greater)."""
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


def summarize_listings(listed: DataFrame) -> DataFrame:
    """Sum up each listing.

    `looks` counts samples; `first` and `last` have columns of the outermost. `messages` and `bytes`
    copied are null if unknown; `throttle_min` and `throttle_max` are in B/s.
    """
    start = F.col("start.log_start")
    messages = F.aggregate(
        "ends", F.lit(0).cast("long"), lambda sum_, end: sum_ + F.greatest(end - start, F.lit(0))
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
    """Sum up the sizes of a listing's added replicas; those in the ISR as large as the leader's."""
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

    A replica short of the leader's log start jumps there, which is no growth. `read_t` is of the
    second reading, `ms` between the two. `begun`: the replica had messages before. `message_bytes`
    is a message's mean size on the leader, `throttle` the broker's follower rate (B/s), both or
    null.
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
