"""One row for each move of a partition, and what insights need of each listing and minute."""

from __future__ import annotations

from math import exp, log

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.records import (
    GAP_MS,
    IN_SYNC,
    LOOKED_AT_MS,
    MINUTE_MS,
    MOST_TELLING,
    STALLED,
    STALLED_AFTER_MS,
    Sample,
    cause_in,
)
from ktui.pipeline.lake.schema import fit_to_table, require_columns, union_by_name
from ktui.pipeline.lake.tables import BROKERS_BY_MINUTE, INTAKES, MOVES, SAMPLES, SPANS, STATES
from ktui.pipeline.tables.listings import (
    ADDING,
    CATCHING_UP,
    LISTING,
    PARTITION,
    as_timestamp,
    summarize_listings,
)
from ktui.pipeline.tables.runs import UNKNOWN, partitions, with_run

DONE = "done"
CANCELLED = "cancelled"
CHANGED_ELSEWHERE = "changed_elsewhere"

_MOVE = (*PARTITION, "run_id", "foreign")
"""A run's move is identified by its run, any other move by its listing, in `foreign`."""
_PERCENTILES = (10, 50, 90)


def moves(listed: DataFrame, pairs: DataFrame, intervals: DataFrame, folds: DataFrame) -> DataFrame:
    """Combine all that is known about each move."""
    seen = (summarize_listings(listed), _lengths(intervals), _rates(pairs))
    rows = union_by_name(_by_runs(folds), *(_with_move(facts, folds) for facts in seen))
    whole = (
        rows.groupBy(*_MOVE)
        .agg(*_figures())
        .withColumn("move", F.coalesce("move", _by_others()))
        .select("*", "move.*")
    )
    return fit_to_table(
        whole.withColumns({"began": as_timestamp("began_t"), "ended": as_timestamp("ended_t")}),
        MOVES,
    )


_TOLD = (
    "struct<run: string, began_t: bigint, ended_t: bigint, outcome: string, steps: int, "
    "batch: int, limits: string, original: array<int>, target: array<int>>"
)
"""The facts of a move that its run or samples give: one type, also where all of them are null."""


def _by_runs(folds: DataFrame) -> DataFrame:
    first = F.col("steps")[0]
    move = F.struct(
        "run",
        first.t.alias("began_t"),
        "ended_t",
        "outcome",
        F.size("steps").alias("steps"),
        first.batch.alias("batch"),
        "limits",
        "original",
        "target",
    )
    begun = partitions(folds).where(F.size("steps") > 0)
    move = move.cast(_TOLD).alias("move")
    return begun.select(*PARTITION, "run_id", _null("bigint").alias("foreign"), move)


def _by_others() -> Column:
    first, last = F.col("first"), F.col("last")
    original = F.array_except(first.replicas, first.adding)
    target = F.array_except(last.replicas, last.removing)
    is_followed = last.next_t - last.t <= GAP_MS
    outcome = (
        F.when(~F.coalesce(is_followed, F.lit(col=False)), UNKNOWN)
        .when(last.next_replicas == target, DONE)
        .when(F.array_sort(last.next_replicas) == F.array_sort(original), CANCELLED)
        .otherwise(CHANGED_ELSEWHERE)
    )
    return F.struct(
        _null("string").alias("run"),
        first.t.alias("began_t"),
        F.when(is_followed, last.next_t).alias("ended_t"),
        outcome.alias("outcome"),
        F.lit(1).alias("steps"),
        _null("int").alias("batch"),
        _null("string").alias("limits"),
        original.alias("original"),
        target.alias("target"),
    ).cast(_TOLD)


def _lengths(intervals: DataFrame) -> DataFrame:
    length = F.col("ended_t") - F.col("began_t")
    return intervals.select(*PARTITION, "listing", "listing_t", "state", length.alias("ms"))


def _rates(pairs: DataFrame) -> DataFrame:
    messages_s = F.col("messages") * 1000 / F.col("ms")
    return pairs.select(
        *PARTITION,
        "listing",
        "listing_t",
        messages_s.alias("messages_s"),
        (messages_s * F.col("message_bytes")).alias("bytes_s"),
    )


def _with_move(rows: DataFrame, folds: DataFrame) -> DataFrame:
    foreign = F.when(F.col("run_id").isNull(), F.col("listing"))
    return (
        with_run(rows, folds, "listing_t")
        .withColumn("foreign", foreign)
        .drop("run", "listing", "listing_t")
    )


def _figures() -> list[Column]:
    percentiles = [percent / 100 for percent in _PERCENTILES]
    return [
        F.first("move", ignorenulls=True).alias("move"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.coalesce(F.sum("looks"), F.lit(0)).alias("looks"),
        F.sort_array(F.array_distinct(F.flatten(F.collect_list("added")))).alias("added"),
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.min("throttle_min").alias("throttle_min"),
        F.max("throttle_max").alias("throttle_max"),
        F.when(_is_seen(), F.count_if(F.col("state") == STALLED)).alias("stalls"),
        *(_spent(state) for state in (STALLED, CATCHING_UP, IN_SYNC, ADDING)),
        *(
            F.percentile(f"{what}_s", share).alias(f"rate_{what}_p{percent}")
            for what in ("messages", "bytes")
            for percent, share in zip(_PERCENTILES, percentiles, strict=True)
        ),
    ]


def _spent(state: str) -> Column:
    length = F.sum(F.when(F.col("state") == state, F.col("ms")))
    known = F.when(_is_seen(), F.coalesce(length, F.lit(0)))
    return known.alias(f"{state.replace(' ', '_')}_ms")


def _is_seen() -> Column:
    return F.sum("looks").isNotNull()


def _null(kind: str) -> Column:
    return F.lit(None).cast(kind)


def states(intervals: DataFrame, folds: DataFrame) -> DataFrame:
    """Combine the progress of listed partitions with the waits of runs' partitions."""
    waits = partitions(folds).select(*PARTITION, "run", "run_id", F.inline("waits"))
    rows = union_by_name(with_run(intervals, folds, "began_t"), waits)
    return fit_to_table(
        rows.withColumns(
            {"began": as_timestamp("began_t"), "ended": as_timestamp("ended_t")}
        ).withColumn("date", F.to_date("began")),
        STATES,
    )


_FACTS = ("copies", "stalls")


def spans(listed: DataFrame, folds: DataFrame, copies: DataFrame, stalls: DataFrame) -> DataFrame:
    """Combine the listings of partitions with what runs did with them."""
    rows = union_by_name(run_spans(folds), _listings(listed, copies, stalls))
    return fit_to_table(rows, SPANS)


def run_spans(folds: DataFrame) -> DataFrame:
    """Select what each run did with each partition, from its first step to the end of its last."""
    is_open = F.exists("steps", lambda step: step.over_t.isNull())
    ended = F.greatest(F.array_max("steps.t"), F.array_max("steps.over_t"))
    told = ("run", "outcome", "original", "target", "limits", "ended_t", "steps")
    return (
        partitions(folds)
        .where(F.size("steps") > 0)
        .select(
            *PARTITION,
            "run_id",
            F.array_min("steps.t").alias("began_t"),
            F.when(~is_open, ended).alias("ended_t"),
            F.sha2(F.to_json(F.struct(*told)), 256).alias("facts"),
        )
    )


def _listings(listed: DataFrame, copies: DataFrame, stalls: DataFrame) -> DataFrame:
    is_open = F.col("next_t").isNull().alias("is_open")
    rows = listed.select(*LISTING, "listing_t", "t", "next_t", is_open)
    rows = union_by_name(rows, copies, stalls)  # one grouping costs less than joins
    return rows.groupBy(*LISTING, F.col("listing_t").alias("began_t")).agg(
        F.when(~F.bool_or("is_open"), F.max("next_t")).alias("ended_t"),
        F.max("t").alias("last_t"),
        *(F.coalesce(F.first(name, ignorenulls=True), F.array()).alias(name) for name in _FACTS),
    )


_KEY = ("cluster_id", "broker", "minute_t")
_COPIED = ("bytes_in", "bytes_out", "messages_in", "messages_out")


def brokers(samples: DataFrame, listed: DataFrame, pairs: DataFrame) -> DataFrame:
    """Sum up copying and throttles by broker and minute; shadowed samples do not count."""
    rows = union_by_name(_copied(pairs), _throttled(samples), _adding(listed))
    sums = [F.sum(name).alias(name) for name in _COPIED]
    throttle = F.max("follower_throttle").alias("follower_throttle")
    adding = F.coalesce(F.max("adding"), F.lit(0)).alias("adding")
    summed = rows.groupBy(*_KEY).agg(*sums, throttle, adding)
    return fit_to_table(summed.withColumn("minute", as_timestamp("minute_t")), BROKERS_BY_MINUTE)


def _copied(pairs: DataFrame) -> DataFrame:
    """Count each pair's copy at both brokers; as integers, so that the order cannot matter."""
    copied = F.floor(F.col("messages") * F.col("message_bytes") + 0.5)
    received = _at("broker", bytes_in=copied, messages_in=F.col("messages"))
    sent = _at("leader", bytes_out=copied, messages_out=F.col("messages"))
    both = pairs.select("cluster_id", _minute("read_t"), F.inline(F.array(received, sent)))
    return both.where("broker IS NOT NULL")


def _at(broker: str, **copied: Column) -> Column:
    nothing = F.lit(None).cast("bigint")
    figures = [copied.get(name, nothing).alias(name) for name in _COPIED]
    return F.struct(F.col(broker).alias("broker"), *figures)


def _throttled(samples: DataFrame) -> DataFrame:
    visible = require_columns(samples, SAMPLES, ("cluster_id", "t", "rates", "shadowed"))
    return (
        visible.where(~F.col("shadowed"))
        .select("cluster_id", _minute("t"), F.inline("rates"))
        .where("follower IS NOT NULL")
        .select(*_KEY, F.col("follower").alias("follower_throttle"))
    )


def _adding(listed: DataFrame) -> DataFrame:
    poll = ("cluster_id", "session", "seq", "t")
    return (
        listed.select(*poll, F.explode("adding").alias("broker"))
        .groupBy(*poll, "broker")
        .agg(F.count("*").alias("adding"))
        .select("cluster_id", "broker", _minute("t"), "adding")
    )


def _minute(t: str) -> Column:
    return begin_of_minute(F.col(t)).alias("minute_t")


def begin_of_minute(t: Column) -> Column:
    """Return the start of the minute of a time; both in ms since 1970."""
    return t - F.pmod(t, F.lit(MINUTE_MS))


CLASS_WIDTH = 1.02
"""Figures within 1% of each other are one class: a listing has few rates, however long it is."""

_JUDGED = (
    "topic", "partition", "t", "leader", "replicas", "isr", "adding", "removing", "offline", "down",
    "described", "ends", "rates",
)  # fmt: skip


def copies_by_rate(pairs: DataFrame) -> DataFrame:
    """Count each listing's measured rates between two brokers by class: `copies`, as in SPANS."""
    bytes_s = F.col("messages") * F.col("message_bytes") * 1000 / F.col("ms")
    rate_class = class_of(bytes_s, 1.0)
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


def class_of(figure: Column, least: float) -> Column:
    """Return the class of a figure; all up to the least one are in one class."""
    return F.round(F.log(F.greatest(figure, F.lit(least))) / log(CLASS_WIDTH)).cast("int")


def middle_of(class_: int) -> float:
    """Return the figure in the middle of a class."""
    return exp(class_ * log(CLASS_WIDTH))


def stalls_with_cause(intervals: DataFrame, samples: DataFrame) -> DataFrame:
    """Find each listing's `stalls`, as in SPANS, and the most telling early cause."""
    held = (F.col("state") == IN_SYNC) & (F.col("ended_t") - F.col("began_t") > STALLED_AFTER_MS)
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
    stall = F.struct("began_t", "ended_t", F.element_at(causes, F.col("place") + 1).alias("cause"))
    return judged.groupBy(*LISTING, "listing_t").agg(
        F.sort_array(F.collect_list(stall)).alias("stalls")
    )


def _place(sample: Row | None) -> int:
    if sample is None:
        return len(MOST_TELLING) - 1
    cause, _ = cause_in(msgspec.convert(sample.asDict(recursive=True), Sample))
    return MOST_TELLING.index(cause)


def intakes(pairs: DataFrame) -> DataFrame:
    """Sum up the bytes into each broker and minute, by the number of replicas added at once.

    A broker reports all its replicas in one response, so readings of one time belong together.
    Times with an unknown message size are left out, and so are those in which nothing was copied,
    unless a throttle may have been the reason: bytes come through it in gulps. Until a replica has
    its first bytes, it waits for them, whatever the throttle.
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
