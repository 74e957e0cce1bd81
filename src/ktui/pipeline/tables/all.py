"""The tables that are worked out from samples, polls and run events, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ktui.pipeline.lake import tables
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.tables.brokers import brokers
from ktui.pipeline.tables.intervals import intervals
from ktui.pipeline.tables.listings import listed
from ktui.pipeline.tables.moves import moves
from ktui.pipeline.tables.run_folds import run_folds
from ktui.pipeline.tables.runs import batches, runs
from ktui.pipeline.tables.states import states


def worked_out(samples: DataFrame, run_events: DataFrame) -> Iterator[tuple[Table, DataFrame]]:
    """Give each table of whole clusters; each is to be written before the next is asked for.

    Args:
        samples: all of those clusters; shadowed ones count for nothing.
        run_events: all of those clusters.
    """
    seen = listed(samples).persist()
    spans = intervals(seen).persist()
    folds = run_folds(run_events).persist()
    try:
        yield tables.STATES, states(spans, folds)
        yield tables.MOVES, moves(seen, spans, folds)
        yield tables.BATCHES, batches(folds)
        yield tables.RUNS, runs(folds)
        yield tables.BROKERS_BY_MINUTE, brokers(samples, seen)
    finally:
        for kept in (seen, spans, folds):
            kept.unpersist()
