"""The tables derived from samples, polls and run events, in the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ktui.pipeline.lake import tables
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.tables.brokers import brokers
from ktui.pipeline.tables.intervals import intervals
from ktui.pipeline.tables.listings import listed_samples
from ktui.pipeline.tables.moves import moves
from ktui.pipeline.tables.run_folds import run_folds
from ktui.pipeline.tables.runs import batches, rates, runs
from ktui.pipeline.tables.states import states


def derived_tables(samples: DataFrame, run_events: DataFrame) -> Iterator[tuple[Table, DataFrame]]:
    """Yield each table for whole clusters. Write each one before asking for the next.

    Args:
        samples: all samples of those clusters; shadowed ones do not count.
        run_events: all events of runs of those clusters.
    """
    seen = listed_samples(samples).persist()
    spans = intervals(seen).persist()
    folds = run_folds(run_events).persist()
    try:
        yield tables.STATES, states(spans, folds)
        yield tables.MOVES, moves(seen, spans, folds)
        yield tables.BATCHES, batches(folds)
        yield tables.RUNS, runs(folds)
        yield tables.RATES, rates(folds)
        yield tables.BROKERS_BY_MINUTE, brokers(samples, seen)
    finally:
        for cached in (seen, spans, folds):
            cached.unpersist()
