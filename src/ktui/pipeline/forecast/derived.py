"""The tables that need a simulation or a replay, and the inputs that their model is fitted on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.pandas.types import to_arrow_schema

from ktui import __version__
from ktui.insights import ClusterInsights, Insights
from ktui.pipeline.forecast.insights import insights, rows
from ktui.pipeline.forecast.model import (
    FitInputs,
    InflowSample,
    RecordedCopy,
    RecordedStep,
    RunLoads,
)
from ktui.pipeline.forecast.play import GridCell
from ktui.pipeline.forecast.what_if import Models, models, what_if
from ktui.pipeline.lake import tables
from ktui.pipeline.lake.engine import schema_on
from ktui.pipeline.lake.schema import Table, require_columns
from ktui.pipeline.lake.sizing import computed_once, forget
from ktui.pipeline.lake.tables import INTAKES, POLLS, RUN_EVENTS, RUNS, STATES
from ktui.pipeline.tables.listings import PARTITION, fetch_all, left_join_null_safe
from ktui.pipeline.tables.runs import run_folds
from ktui.pipeline.tables.runs import steps as all_steps

_CATCHING_UP = "catching up"
_STEP = "topic string, partition int, adding array<int>, leader int, before array<int>"


def fetch_fit_inputs(
    inflows: DataFrame, steps: DataFrame, most_moving: DataFrame, runs: DataFrame
) -> tuple[Mapping[str, FitInputs], list[tuple[str, str]]]:
    """Fetch `inflows`, `steps` and `most_reassigning` by cluster, and each run's cluster and id."""
    found = fetch_all(
        {
            "inflows": inflows,
            "steps": steps,
            "most": most_moving,
            "runs": runs.select("cluster_id", "run_id"),
        }
    )
    flows: defaultdict[str, list[InflowSample]] = defaultdict(list)
    taken: defaultdict[str, list[RecordedStep]] = defaultdict(list)
    copies: defaultdict[tuple[str, str], list[RecordedCopy]] = defaultdict(list)
    for row in found["steps"]:
        for broker in row.adding if row.leader is not None else ():
            copy = RecordedCopy((row.leader, broker), row.t / 1000, row.over_t / 1000)
            copies[row.cluster_id, row.run_id].append(copy)
    loads = {run: RunLoads(of) for run, of in copies.items()}
    for row in found["inflows"]:
        load = loads.get((row.cluster_id, row.run_id))
        flows[row.cluster_id].append(
            InflowSample(
                row.run_id,
                row.broker,
                row.at_once,
                row.ms / 1000,
                float(row.bytes),
                row.throttle,
                None if load is None else load.of(row.at_once),
            )
        )
    for row in found["steps"]:
        step = RecordedStep(
            row.run_id, adds=row.adds, took_s=row.took_ms / 1000, copying_s=row.copying_ms / 1000
        )
        taken[row.cluster_id].append(step)
    most = {row.cluster_id: row.partitions for row in found["most"]}
    inputs = {
        cluster: FitInputs(tuple(flows[cluster]), tuple(taken[cluster]), most.get(cluster, 0))
        for cluster in {**flows, **taken}
    }
    return inputs, sorted((row.cluster_id, row.run_id) for row in found["runs"])


def most_reassigning(polls: DataFrame) -> DataFrame:
    """Count the most `partitions` of each cluster that one poll saw being reassigned."""
    polls = require_columns(polls, POLLS, ("cluster_id", "reassigning"))
    return polls.groupBy("cluster_id").agg(F.max("reassigning").alias("partitions"))


def inflows(intakes: DataFrame, runs: DataFrame) -> DataFrame:
    """Sum up `ms` and `bytes` into each broker by replicas added `at_once`, and `throttle`.

    Throttles are in B/s, or null. A minute of INTAKES counts for the run under way at its first
    reading, `run_id` (or null).
    """
    intakes = require_columns(intakes, INTAKES)
    key = ("cluster_id", "run_id", "broker", "at_once", "throttle")
    return (
        _in_time_of(intakes, runs, "t")
        .groupBy(*key)
        .agg(F.sum("ms").alias("ms"), F.sum("bytes").alias("bytes"))
    )


def _in_time_of(rows: DataFrame, runs: DataFrame, t: str) -> DataFrame:
    spans = require_columns(runs, RUNS, ("cluster_id", "run_id", "began_t", "ended_t")).select(
        "cluster_id", "run_id", "began_t", "ended_t"
    )
    span = F.struct((-F.col("began_t")).alias("minus_began"), "run_id", "began_t", "ended_t")
    of_cluster = spans.groupBy("cluster_id").agg(F.collect_list(span).alias("spans"))
    over = F.filter(
        "spans",
        lambda one: (
            (one.began_t <= F.col(t)) & F.coalesce(one.ended_t >= F.col(t), F.lit(True))  # noqa: FBT003 - Spark's own signature
        ),
    )
    return (
        left_join_null_safe(rows, F.broadcast(of_cluster), ("cluster_id",))
        .withColumn("run_id", F.array_min(over).run_id)
        .drop("spans")
    )


def steps(run_events: DataFrame, folds: DataFrame, states: DataFrame) -> DataFrame:
    """Compute each finished step's time and copying, in ms, from `t` to `over_t`."""
    events = require_columns(run_events, RUN_EVENTS, ("cluster_id", "run_id", "t", "kind", "event"))
    begun = events.where("kind = 'step'").select(
        "cluster_id", "run_id", "t", F.from_json("event", _STEP).alias("step")
    )
    begun = begun.select("cluster_id", "run_id", "t", "step.*")
    over = all_steps(folds).where("over_t IS NOT NULL")
    same = ("cluster_id", "run_id", "topic", "partition", "t")
    taken = over.join(begun.withColumn("adds", F.size("adding") > 0), list(same), "inner")
    copied = (
        require_columns(states, STATES)
        .where(F.col("state") == _CATCHING_UP)
        .select(*PARTITION, "began_t", F.col("ended_t").alias("caught_t"))
    )
    of_partition = copied.groupBy(*PARTITION).agg(
        F.collect_list(F.struct("began_t", "caught_t")).alias("spans")
    )
    within = F.filter(
        F.coalesce("spans", F.array()),
        lambda one: (one.began_t >= F.col("t")) & (one.began_t <= F.col("over_t")),
    )
    copying = F.aggregate(
        within,
        F.lit(0).cast("long"),
        lambda sum_, one: sum_ + F.least(one.caught_t, F.col("over_t")) - one.began_t,
    )
    return left_join_null_safe(taken, of_partition, PARTITION).select(
        "cluster_id",
        "run_id",
        "t",
        "over_t",
        F.coalesce("leader", F.get("before", F.lit(0))).alias("leader"),
        "adding",
        "adds",
        (F.col("over_t") - F.col("t")).alias("took_ms"),
        copying.alias("copying_ms"),
    )


class WhatIfOptions(msgspec.Struct, frozen=True):
    """How to simulate runs under other limits."""

    cells: tuple[GridCell, ...] | None = None  # None for multiples of each run's own
    window_s: float | None = None
    all_runs: bool = True  # if False, only the runs of clusters with new lines are simulated


class DerivedOptions(msgspec.Struct, frozen=True):
    """Options for the tables `what_if` and `insights`."""

    what_if: WhatIfOptions | None = None  # None: `what_if` stays as it is


PLAYED_BY = (
    tables.POLLS,
    tables.RUN_EVENTS,
    tables.STATES,
    tables.MOVES,
    tables.SPANS,
    tables.BATCHES,
    tables.RUNS,
    tables.RATES,
    tables.INTAKES,
    tables.ETA_ERRORS,
)
"""The tables that `simulated_tables` needs."""


def simulated_tables(
    written: Mapping[str, DataFrame], asked: DerivedOptions, folds: DataFrame | None = None
) -> Iterator[tuple[Table, DataFrame]]:
    """Yield `what_if`, if asked for, and `insights`, computed from the tables of `PLAYED_BY`.

    `written` also has `what_if` as it is. Write each before asking for the next, and add it to
    `written`. `folds` are the runs, where they are computed already.
    """
    events = written[tables.RUN_EVENTS.name]
    folds = run_folds(events) if folds is None else folds
    taken = computed_once(steps(events, folds, written[tables.STATES.name]))
    try:
        how = asked.what_if
        fitted = _fitted(written, taken, held_out=how is not None)
        if how is not None:
            simulated = what_if(written, models=fitted, cells=how.cells, window_s=how.window_s)
            yield tables.WHAT_IF, simulated
        yield tables.INSIGHTS, _insights(written, taken, fitted)
    finally:
        forget(taken)


def whole_insights(table: DataFrame) -> Insights:
    """Assemble the insights of all clusters, without those with an impossible figure (forged)."""
    clusters = []
    for row in sorted(table.collect(), key=lambda row: row["cluster_id"]):
        with suppress(msgspec.ValidationError):
            clusters.append(msgspec.json.decode(row["insights"], type=ClusterInsights))
    made_at = datetime.now(UTC).replace(microsecond=0)
    return Insights(made_at=made_at, version=__version__, clusters=tuple(clusters))


def _fitted(written: Mapping[str, DataFrame], taken: DataFrame, *, held_out: bool) -> Models:
    runs = written[tables.RUNS.name]
    flows = inflows(written[tables.INTAKES.name], runs)
    most = most_reassigning(written[tables.POLLS.name])
    inputs, all_runs = fetch_fit_inputs(flows, taken, most, runs)
    return models(inputs, all_runs if held_out else ())


def _insights(written: Mapping[str, DataFrame], taken: DataFrame, fitted: Models) -> DataFrame:
    curves = {cluster: model.curve for cluster, model in fitted.whole.items()}
    made = insights(written, taken, curves)
    spark = taken.sparkSession
    schema = tables.INSIGHTS.schema
    # of Arrow, Spark takes rows without a Python worker
    found = pa.Table.from_pylist(list(rows(made)), to_arrow_schema(schema, timezone="UTC"))
    return spark.createDataFrame(found, schema_on(spark, schema))
