"""The table `spans`: what of a partition may not be cut in two.

A row of `states` or `moves` follows from whole spans only. So rows of spans before a new sample
stay as they are, and all others are computed again: see `patch`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.enforce_schema import fit_to_table
from ktui.pipeline.lake.tables import SPANS
from ktui.pipeline.tables.run_folds import partitions
from ktui.pipeline.tables.windows import LISTING, PARTITION

_FACTS = ("copies", "stalls")


def spans(listed: DataFrame, folds: DataFrame, copies: DataFrame, stalls: DataFrame) -> DataFrame:
    """Combine the listings of partitions with what runs did with them.

    Args:
        listed: as returned by `listings.listed_samples`.
        folds: as returned by `run_folds.run_folds`.
        copies: as returned by `evidence.copies_by_rate`.
        stalls: as returned by `evidence.stalls_with_cause`.
    """
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
    """Select each listing, from its first sample to the partition's next one after it."""
    is_open = F.col("next_t").isNull().alias("is_open")
    rows = listed.select(*LISTING, "listing_t", "t", "next_t", is_open)
    for facts in (copies, stalls):  # one grouping costs less than joins
        rows = rows.unionByName(facts, allowMissingColumns=True)
    return rows.groupBy(*LISTING, F.col("listing_t").alias("began_t")).agg(
        F.when(~F.bool_or("is_open"), F.max("next_t")).alias("ended_t"),
        F.max("t").alias("last_t"),
        *(F.coalesce(F.first(name, ignorenulls=True), F.array()).alias(name) for name in _FACTS),
    )
