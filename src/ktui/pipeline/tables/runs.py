"""The tables `runs`, `batches` and `rates`: each run, its decisions, and its rates over time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.enforce_schema import fit_to_table
from ktui.pipeline.lake.tables import BATCHES, RATES, RUNS
from ktui.pipeline.tables.run_folds import steps
from ktui.pipeline.tables.windows import as_timestamp


def batches(folds: DataFrame) -> DataFrame:
    """Sum up the steps of each decision.

    Args:
        folds: as returned by `run_folds.run_folds`.
    """
    all_over = F.bool_and(F.col("over_t").isNotNull())
    rows = (
        steps(folds)
        .groupBy("cluster_id", "run", "run_id", "batch")
        .agg(
            F.min("t").alias("began_t"),
            F.when(all_over, F.max("over_t")).alias("ended_t"),
            F.count_distinct("topic", "partition").alias("partitions"),
            F.count("*").alias("steps"),
            F.count_if("alters").alias("alters"),
            F.count_if("elects").alias("elections"),
        )
    )
    return fit_to_table(
        rows.withColumns({"began": as_timestamp("began_t"), "ended": as_timestamp("ended_t")}),
        BATCHES,
    )


def runs(folds: DataFrame) -> DataFrame:
    """Sum up each run as of its last recorded event.

    Args:
        folds: as returned by `run_folds.run_folds`.
    """
    steps = F.flatten("partitions.steps")
    planned = F.aggregate(
        F.map_values("outcomes"), F.lit(0).cast("long"), lambda sum_, count: sum_ + count
    )
    rows = folds.withColumns(
        {
            "began": as_timestamp("began_t"),
            "ended": as_timestamp("ended_t"),
            "by": as_timestamp("by_t"),
            "late_ms": F.col("ended_t") - F.col("by_t"),
            "batches": F.size(F.array_distinct(steps.batch)),
            "steps": F.size(steps),
            "partitions": planned,
        }
    )
    return fit_to_table(rows, RUNS)


def rates(folds: DataFrame) -> DataFrame:
    """List the rates of each run over time.

    Args:
        folds: as returned by `run_folds.run_folds`.
    """
    rows = folds.select("cluster_id", "run", "run_id", F.inline("rates"))
    return fit_to_table(
        rows.withColumns({"at": as_timestamp("t"), "ends_at": as_timestamp("ends_at_t")}), RATES
    )
