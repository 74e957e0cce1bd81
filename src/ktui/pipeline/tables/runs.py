"""The recorded events of each run, folded: one row per run, with its partitions' outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.execution.run.events import JournalEntry, decode
from ktui.pipeline.lake.schema import (
    TEXT,
    column,
    columns_of,
    fit_to_table,
    require_columns,
    struct_of,
)
from ktui.pipeline.lake.tables import BATCHES, RATES, RUN_EVENTS, RUNS
from ktui.pipeline.tables.listings import PARTITION, as_timestamp, left_join_null_safe
from ktui.pipeline.tables.run_story import RunFacts, RunStory
from ktui.recording.segments import from_wall_ms

FOLDS = struct_of(column("cluster_id", TEXT), column("run_id", TEXT), *columns_of(RunFacts))
"""The rows of `run_folds`: a `run_story.RunFacts` per run, with its cluster and run id."""

_NEEDED = ("cluster_id", "run_id", "run", "entry", "t", "event")


def run_folds(run_events: DataFrame) -> DataFrame:
    """Fold the events of each run, in the executors and with ktui's own code, into `FOLDS`."""
    events = require_columns(run_events, RUN_EVENTS, _NEEDED).select(*_NEEDED)
    return events.groupBy("cluster_id", "run_id").applyInArrow(_folded(), FOLDS)


def _folded() -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    schema = to_arrow_schema(FOLDS)

    def folded(key: tuple[pa.Scalar, ...], events: pa.Table) -> pa.Table:
        cluster_id, run_id = (part.as_py() for part in key)
        facts = fold(events.sort_by("entry").to_pylist())
        row = {"cluster_id": cluster_id, "run_id": run_id, **msgspec.to_builtins(facts)}
        with suppress(pa.ArrowException, OverflowError):  # figures that no real cluster has
            return pa.Table.from_pylist([row], schema)
        return schema.empty_table()

    return folded


def fold(rows: Sequence[Mapping[str, Any]]) -> RunFacts:
    """Fold one run's rows of `run_events`, without those that are unreadable or do not fit."""
    story = RunStory(rows[0]["run"])
    for row in rows:
        with suppress(Exception):  # recordings are untrusted; one bad run must not stop the others
            event = decode(row["event"].encode())
            story.take(JournalEntry(row["entry"], from_wall_ms(row["t"]), event), row["t"])
    return story.facts()


def partitions(folds: DataFrame) -> DataFrame:
    """Select the partitions of all runs: `cluster_id`, `run`, `run_id`, and the facts of each."""
    return folds.select("cluster_id", "run", "run_id", F.inline("partitions"))


def steps(folds: DataFrame) -> DataFrame:
    """Select the steps of all runs: `PARTITION`, `run`, `run_id`, and the facts of each."""
    return partitions(folds).select(*PARTITION, "run", "run_id", F.inline("steps"))


def with_run(rows: DataFrame, folds: DataFrame, t: str) -> DataFrame:
    """Add `run` and `run_id` of the step begun last at the time `t` (ms); null without one."""
    began = F.struct((-F.col("t")).alias("minus_t"), "run_id", "run", "t", "over_t")
    of_partition = steps(folds).groupBy(*PARTITION).agg(F.collect_list(began).alias("began"))
    under_way = F.filter(
        "began",
        lambda step: (step.t <= F.col(t)) & F.coalesce(step.over_t >= F.col(t), F.lit(col=True)),
    )
    latest = F.array_min(under_way)
    return (
        left_join_null_safe(rows, of_partition, PARTITION)
        .withColumns({"run": latest.run, "run_id": latest.run_id})
        .drop("began")
    )


def batches(folds: DataFrame) -> DataFrame:
    """Sum up the steps of each decision."""
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
    """Sum up each run as of its last recorded event."""
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
    """List the rates of each run over time."""
    rows = folds.select("cluster_id", "run", "run_id", F.inline("rates"))
    return fit_to_table(
        rows.withColumns({"at": as_timestamp("t"), "ends_at": as_timestamp("ends_at_t")}), RATES
    )
