"""The table `moves`: one row for each move of a partition, by a run or by others."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.schema import fit_to_table
from ktui.pipeline.lake.tables import MOVES, SPANS, STATES
from ktui.pipeline.tables.listings import (
    ADDING,
    CATCHING_UP,
    GAP_MS,
    IN_SYNC,
    STALLED,
    summarize_listings,
)
from ktui.pipeline.tables.run_story import UNKNOWN
from ktui.pipeline.tables.runs import partitions, with_run
from ktui.pipeline.tables.windows import LISTING, PARTITION, as_timestamp

DONE = "done"
CANCELLED = "cancelled"
CHANGED_ELSEWHERE = "changed_elsewhere"

_MOVE = (*PARTITION, "run_id", "foreign")
"""A run's move is identified by its run, any other move by its listing, in `foreign`."""
_PERCENTILES = (10, 50, 90)


def moves(listed: DataFrame, pairs: DataFrame, intervals: DataFrame, folds: DataFrame) -> DataFrame:
    """Combine all that is known about each move."""
    rows = _by_runs(folds)
    for facts in (summarize_listings(listed), _lengths(intervals), _rates(pairs)):
        rows = rows.unionByName(_with_move(facts, folds), allowMissingColumns=True)
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
    return begun.select(*PARTITION, "run_id", _null("bigint").alias("foreign"), move.alias("move"))


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
    )


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
        F.count_if(F.col("state") == STALLED).alias("stalls"),
        *(_spent(state) for state in (STALLED, CATCHING_UP, IN_SYNC, ADDING)),
        *(
            F.percentile(f"{what}_s", share).alias(f"rate_{what}_p{percent}")
            for what in ("messages", "bytes")
            for percent, share in zip(_PERCENTILES, percentiles, strict=True)
        ),
    ]


def _spent(state: str) -> Column:
    length = F.sum(F.when(F.col("state") == state, F.col("ms")))
    return F.coalesce(length, F.lit(0)).alias(f"{state.replace(' ', '_')}_ms")


def _null(kind: str) -> Column:
    return F.lit(None).cast(kind)


def states(intervals: DataFrame, folds: DataFrame) -> DataFrame:
    """Combine the progress of listed partitions with the waits of runs' partitions."""
    waits = partitions(folds).select(*PARTITION, "run", "run_id", F.inline("waits"))
    rows = with_run(intervals, folds, "began_t").unionByName(waits, allowMissingColumns=True)
    return fit_to_table(
        rows.withColumns(
            {"began": as_timestamp("began_t"), "ended": as_timestamp("ended_t")}
        ).withColumn("date", F.to_date("began")),
        STATES,
    )


_FACTS = ("copies", "stalls")


def spans(listed: DataFrame, folds: DataFrame, copies: DataFrame, stalls: DataFrame) -> DataFrame:
    """Combine the listings of partitions with what runs did with them."""
    listings = _listings(listed, copies, stalls)
    rows = run_spans(folds).unionByName(listings, allowMissingColumns=True)
    return fit_to_table(rows, SPANS)


def run_spans(folds: DataFrame) -> DataFrame:
    """Select what each run did with each partition, from its first step to the end of its last."""
    steps = F.col("steps")
    is_open = F.exists(steps, lambda step: step.over_t.isNull())
    ended = F.greatest(F.array_max(steps.t), F.array_max(steps.over_t))
    told = ("run", "outcome", "original", "target", "limits", "ended_t", "steps")
    return (
        partitions(folds)
        .where(F.size("steps") > 0)
        .select(
            *PARTITION,
            "run_id",
            F.array_min(steps.t).alias("began_t"),
            F.when(~is_open, ended).alias("ended_t"),
            F.sha2(F.to_json(F.struct(*told)), 256).alias("facts"),
        )
    )


def _listings(listed: DataFrame, copies: DataFrame, stalls: DataFrame) -> DataFrame:
    is_open = F.col("next_t").isNull().alias("is_open")
    rows = listed.select(*LISTING, "listing_t", "t", "next_t", is_open)
    for facts in (copies, stalls):  # one grouping costs less than joins
        rows = rows.unionByName(facts, allowMissingColumns=True)
    return rows.groupBy(*LISTING, F.col("listing_t").alias("began_t")).agg(
        F.when(~F.bool_or("is_open"), F.max("next_t")).alias("ended_t"),
        F.max("t").alias("last_t"),
        *(F.coalesce(F.first(name, ignorenulls=True), F.array()).alias(name) for name in _FACTS),
    )
