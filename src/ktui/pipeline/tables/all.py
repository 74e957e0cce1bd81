"""The tables derived from samples, polls and run events, in the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ktui.pipeline.lake import tables
from ktui.pipeline.lake.growing import Marks
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.sizing import Resize, computed_once, forget
from ktui.pipeline.tables.evidence import brokers, copies_by_rate, intakes, stalls_with_cause
from ktui.pipeline.tables.listings import intervals, listed_samples, rate_pairs
from ktui.pipeline.tables.moves import moves, spans, states
from ktui.pipeline.tables.patch import News, Patch
from ktui.pipeline.tables.runs import batches, rates, run_folds, runs


class Shared:
    """Results that Spark keeps from their first use until they are freed."""

    def __init__(self, samples: DataFrame, folds: DataFrame) -> None:
        self.listed = computed_once(listed_samples(samples))
        self.pairs = computed_once(rate_pairs(self.listed))
        self.folds = computed_once(folds)

    @classmethod
    def of_events(cls, samples: DataFrame, run_events: DataFrame) -> Shared:
        return cls(samples, run_folds(run_events))

    def unpersist(self) -> None:
        for kept in (self.pairs, self.listed, self.folds):
            forget(kept)


def derived_tables(
    samples: DataFrame, run_events: DataFrame, news: News | Shared, resize: Resize = lambda _: None
) -> Iterator[tuple[Table, DataFrame, Marks | None]]:
    """Yield each table's new rows, and what marks old ones that stay; write before the next."""
    if isinstance(news, Shared):
        for table, rows in _computed(samples, None, news):
            yield table, rows, None
        return
    patch = Patch(samples, run_events, news, resize)
    shared = Shared(patch.samples, patch.folds)
    try:
        for table, rows in _computed(patch.samples, patch.recent, shared):
            yield table, patch.added(table, rows), patch.marks(table)
    finally:
        shared.unpersist()
        patch.unpersist()


def _computed(
    samples: DataFrame, recent: DataFrame | None, shared: Shared
) -> Iterator[tuple[Table, DataFrame]]:
    """`recent` are samples for the tables by minute; None for `samples`, then of whole spans."""
    seen, folds = shared.listed, shared.folds
    states_seen = computed_once(intervals(seen))
    cached = [states_seen]
    try:
        yield tables.STATES, states(states_seen, folds)
        yield tables.MOVES, moves(seen, shared.pairs, states_seen, folds)
        stalls = stalls_with_cause(states_seen, samples)
        yield tables.SPANS, spans(seen, folds, copies_by_rate(shared.pairs), stalls)
        yield tables.BATCHES, batches(folds)
        yield tables.RUNS, runs(folds)
        yield tables.RATES, rates(folds)
        if recent is None:
            yield from _by_minute(samples, seen, shared.pairs)
        else:
            listed = listed_samples(recent)
            pairs = computed_once(rate_pairs(listed))
            cached.append(pairs)
            yield from _by_minute(recent, listed, pairs)
    finally:
        for each in cached:
            forget(each)


def _by_minute(
    samples: DataFrame, listed: DataFrame, pairs: DataFrame
) -> Iterator[tuple[Table, DataFrame]]:
    yield tables.BROKERS_BY_MINUTE, brokers(samples, listed, pairs)
    yield tables.INTAKES, intakes(pairs)
