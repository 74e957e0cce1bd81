"""The tables that need a simulation or a replay: the backtest of forecasts, what-if, insights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
from pyspark.sql import DataFrame

from ktui import __version__
from ktui.insights.insights import ClusterInsights, Insights
from ktui.pipeline.forecast.insights import Sources, insights, rows
from ktui.pipeline.lake import tables
from ktui.pipeline.lake import tables as schemas
from ktui.pipeline.lake import tables as stage_schemas
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.tables.listings import listed_samples
from ktui.pipeline.tables.measures import rate_pairs
from ktui.pipeline.tables.run_folds import run_folds
from ktui.pipeline.tables.shared import Shared
from ktui.pipeline.what_if.fit import fetch_fit_inputs, inflows, most_reassigning, steps
from ktui.pipeline.what_if.grid import GridCell
from ktui.pipeline.what_if.table import Models, models, what_if


class DerivedOptions(msgspec.Struct, frozen=True):
    """Options for the tables `what_if` and `insights`."""

    cells: tuple[GridCell, ...] | None = None
    """The limits and throttles to simulate; None for multiples of each run's own."""
    window_s: float | None = None
    """Seconds in which a run should end; None without a window."""
    anew: bool = False
    """Whether to simulate all runs of the lake, or only those of clusters with new recordings."""


PLAYED_BY = (
    schemas.SAMPLES,
    schemas.RUN_EVENTS,
    stage_schemas.STATES,
    stage_schemas.MOVES,
    stage_schemas.BATCHES,
    stage_schemas.RUNS,
    stage_schemas.RATES,
    stage_schemas.BROKERS_BY_MINUTE,
    tables.ETA_BACKTEST,
)
"""The tables that `simulated_tables` needs."""


def simulated_tables(
    written: Mapping[str, DataFrame], asked: DerivedOptions, shared: Shared | None = None
) -> Iterator[tuple[Table, DataFrame]]:
    """Yield `what_if` and `insights`. Write each table before asking for the next.

    Args:
        written: the tables of `PLAYED_BY`, by name. The caller adds each yielded table once it is
            written.
        asked: the grid, the window, and which runs.
        shared: what follows from these samples and events, where it is computed already.
    """
    if shared is None:
        pairs = rate_pairs(listed_samples(written[schemas.SAMPLES.name])).persist()
        folds = run_folds(written[schemas.RUN_EVENTS.name])
    else:
        pairs, folds = shared.pairs, shared.folds
    taken = steps(written[schemas.RUN_EVENTS.name], folds, written[stage_schemas.STATES.name])
    taken = taken.persist()
    try:
        fitted = _fitted(written, pairs, taken)
        yield tables.WHAT_IF, _what_if(written, fitted, asked)
        yield tables.INSIGHTS, _insights(written, pairs, taken, fitted)
    finally:
        if shared is None:
            pairs.unpersist()
        taken.unpersist()


def whole_insights(table: DataFrame) -> Insights:
    """Assemble the insights of all clusters from the table INSIGHTS.

    Clusters with an impossible figure, as from a forged recording, are left out.
    """
    clusters = []
    for row in sorted(table.collect(), key=lambda row: row["cluster_id"]):
        with suppress(msgspec.ValidationError):
            clusters.append(msgspec.json.decode(row["insights"], type=ClusterInsights))
    made_at = datetime.now(UTC).replace(microsecond=0)
    return Insights(made_at=made_at, version=__version__, clusters=tuple(clusters))


def _fitted(written: Mapping[str, DataFrame], pairs: DataFrame, taken: DataFrame) -> Models:
    runs = written[stage_schemas.RUNS.name]
    known = fetch_fit_inputs(
        inflows(pairs, runs), taken, most_reassigning(written[schemas.SAMPLES.name])
    )
    of_runs = runs.select("cluster_id", "run_id").collect()
    return models(known, [(row.cluster_id, row.run_id) for row in of_runs])


def _what_if(written: Mapping[str, DataFrame], fitted: Models, asked: DerivedOptions) -> DataFrame:
    return what_if(
        written[schemas.RUN_EVENTS.name],
        written[stage_schemas.RUNS.name],
        written[stage_schemas.BATCHES.name],
        written[stage_schemas.RATES.name],
        models=fitted,
        cells=asked.cells,
        window_s=asked.window_s,
    )


def _insights(
    written: Mapping[str, DataFrame], pairs: DataFrame, taken: DataFrame, fitted: Models
) -> DataFrame:
    made = insights(
        Sources(
            samples=written[schemas.SAMPLES.name],
            states=written[stage_schemas.STATES.name],
            moves=written[stage_schemas.MOVES.name],
            runs=written[stage_schemas.RUNS.name],
            eta_backtest=written[tables.ETA_BACKTEST.name],
            what_if=written[tables.WHAT_IF.name],
            curves={cluster: model.curve for cluster, model in fitted.whole.items()},
            pairs=pairs,
            steps=taken,
        )
    )
    spark = pairs.sparkSession
    return spark.createDataFrame(list(rows(made)), tables.INSIGHTS.schema)
