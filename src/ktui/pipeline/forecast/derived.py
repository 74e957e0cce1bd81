"""The tables that need a simulation or a replay: the backtest of forecasts, what-if, insights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from ktui import __version__
from ktui.insights.insights import ClusterInsights, Insights
from ktui.pipeline.forecast.insights import Sources, insights, rows
from ktui.pipeline.lake import tables
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.sizing import computed_once, forget
from ktui.pipeline.tables.runs import run_folds
from ktui.pipeline.what_if.fit import fetch_fit_inputs, inflows, most_reassigning, steps
from ktui.pipeline.what_if.play import GridCell
from ktui.pipeline.what_if.table import Models, models, what_if


class DerivedOptions(msgspec.Struct, frozen=True):
    """Options for the tables `what_if` and `insights`."""

    cells: tuple[GridCell, ...] | None = None
    window_s: float | None = None
    anew: bool = False  # whether to simulate all runs, or those of clusters with new lines


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
    """Yield `what_if` and `insights`, computed from the tables of `PLAYED_BY`.

    Write each before asking for the next, and add it to `written`. `folds` are the runs, where they
    are computed already.
    """
    events = written[tables.RUN_EVENTS.name]
    folds = run_folds(events) if folds is None else folds
    taken = computed_once(steps(events, folds, written[tables.STATES.name]))
    try:
        fitted = _fitted(written, taken)
        of_runs = (tables.RUN_EVENTS, tables.RUNS, tables.BATCHES, tables.RATES)
        yield (
            tables.WHAT_IF,
            what_if(
                *(written[each.name] for each in of_runs),
                models=fitted,
                cells=asked.cells,
                window_s=asked.window_s,
            ),
        )
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


def _fitted(written: Mapping[str, DataFrame], taken: DataFrame) -> Models:
    runs = written[tables.RUNS.name]
    flows = inflows(written[tables.INTAKES.name], runs)
    most = most_reassigning(written[tables.POLLS.name])
    return models(*fetch_fit_inputs(flows, taken, most, runs))


def _insights(written: Mapping[str, DataFrame], taken: DataFrame, fitted: Models) -> DataFrame:
    made = insights(
        Sources(
            spans=written[tables.SPANS.name],
            moves=written[tables.MOVES.name],
            runs=written[tables.RUNS.name],
            eta_errors=written[tables.ETA_ERRORS.name],
            what_if=written[tables.WHAT_IF.name],
            curves={cluster: model.curve for cluster, model in fitted.whole.items()},
            steps=taken,
        )
    )
    spark = taken.sparkSession
    schema = tables.INSIGHTS.schema
    # of Arrow, Spark takes rows without a Python worker
    found = pa.Table.from_pylist(list(rows(made)), to_arrow_schema(schema, timezone="UTC"))
    return spark.createDataFrame(found, schema)
