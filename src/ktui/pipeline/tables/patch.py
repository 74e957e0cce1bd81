"""The tables derived from samples, polls and events of runs: new rows, and which old ones stay.

No span of a partition (`spans`) crosses its cut, and nothing is new before it: rows from before the
cut stay, those after it follow from the samples since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake import tables
from ktui.pipeline.lake.lake import Marks, marked
from ktui.pipeline.lake.records import BETWEEN, GAP_MS
from ktui.pipeline.lake.schema import Table, Time, union_by_name, united
from ktui.pipeline.lake.sizing import (
    LARGE_BYTES,
    ROW_BYTES,
    Resize,
    computed_once,
    forget,
    runs_small,
)
from ktui.pipeline.lake.tables import BROKERS_BY_MINUTE, INTAKES, MOVES, SPANS, STATES
from ktui.pipeline.tables.listings import (
    PARTITION,
    intervals,
    is_among,
    left_join_null_safe,
    listed_samples,
    rate_pairs,
)
from ktui.pipeline.tables.moves import (
    begin_of_minute,
    brokers,
    copies_by_rate,
    intakes,
    moves,
    run_spans,
    spans,
    stalls_with_cause,
    states,
)
from ktui.pipeline.tables.runs import ELECTING, QUEUED, batches, rates, run_folds, runs

PATCHED = (STATES, MOVES, SPANS, BROKERS_BY_MINUTE, INTAKES)  # the tables whose rows may be many
_WAITS = (QUEUED, ELECTING, BETWEEN)
_LATE_MS = 2 * GAP_MS
"""A sample's figure that was not in the sample before it was read at most so long before it."""
_BUCKET_MS = 15 * 60_000  # the times of spans that began in one such time are united by Spark


class News(NamedTuple):
    """What has changed since tables were derived, and these tables as they were."""

    first: DataFrame  # `PARTITION` and `t` (ms) of the first new, gone or changed one
    run_ids: Collection[str]
    sessions: Collection[str]
    known: Collection[str]  # the clusters with derived tables; all rows of others are new
    derived_bytes: int  # the bytes of those tables; some of their rows are written again
    many: bool  # whether reading some of these samples is no small run
    old: Callable[[Table], DataFrame]  # returns the rows of a derived table, of those clusters
    stage: Callable[[DataFrame], DataFrame]  # stores rows, to cut plans short


class Patch:
    """Finds what has to be computed again, and joins it with the rows that stay.

    States and moves follow from `samples`, `brokers` and `intakes` from `recent`, runs from
    `folds`.
    """

    def __init__(
        self, samples: DataFrame, run_events: DataFrame, news: News, resize: Resize
    ) -> None:
        self._known = sorted(news.known)
        spans = news.old(SPANS)
        with_news = computed_once(run_folds(run_events.where(F.col("run_id").isin(*news.run_ids))))
        first = computed_once(news.first)
        changed = _changed_spans(spans.where(F.col("run_id").isin(*news.run_ids)), with_news)
        self._cuts = news.stage(_cuts(first.unionByName(changed), spans))
        others = _runs_since(spans, self._cuts) - {*news.run_ids}
        self._runs = sorted({*news.run_ids, *others})
        self.folds = with_news
        if others:
            more = run_folds(run_events.where(F.col("run_id").isin(*sorted(others))))
            self.folds = with_news.unionByName(more)
        since = samples.where(is_among(_times(first, spans, self._cuts)))
        # a small run reads every column of each sample before it looks at t
        resize(LARGE_BYTES if news.many else 0)
        of_cuts = _with_cuts(since, self._cuts).where("t >= cut_t").drop("cut_t")
        self.samples = news.stage(of_cuts)
        resize(max(ROW_BYTES * self.samples.count(), news.derived_bytes))
        minute = begin_of_minute(F.min("t") - _LATE_MS).alias("from_t")
        self._minutes = computed_once(first.groupBy("cluster_id").agg(minute))
        self.recent = self._of_recent_minutes(samples)
        self._cached = (with_news, first, self._minutes)

    def unpersist(self) -> None:
        for cached in self._cached:
            forget(cached)

    def added(self, table: Table, new: DataFrame) -> DataFrame:
        """Return those of a derived table's rows that are new, of rows computed from `samples`."""
        if table == MOVES:
            return _with_cuts(new, self._cuts).where("began_t >= cut_t").drop("cut_t")
        if table in (BROKERS_BY_MINUTE, INTAKES):
            return self._with_from_t(new).where(_is_recent()).select(*new.columns)
        return new

    def marks(self, table: Table) -> Marks:
        of_other_runs = ~F.col("run_id").isin(*self._runs)

        def mark(rows: DataFrame) -> DataFrame:
            if table in (BROKERS_BY_MINUTE, INTAKES):
                return self._marked(self._with_from_t(rows), ~_is_recent())
            if table not in (MOVES, STATES, SPANS):
                return self._marked(rows, of_other_runs)
            stays = F.col("cut_t").isNull() | (F.col("began_t") < F.col("cut_t"))
            if table == STATES:
                stays = F.when(F.col("state").isin(*_WAITS), of_other_runs).otherwise(stays)
            if table == SPANS:
                stays = F.when(F.col("run_id").isNotNull(), of_other_runs).otherwise(stays)
            return self._marked(_with_cuts(rows, self._cuts), stays)

        return mark

    def _marked(self, rows: DataFrame, stays: Column) -> DataFrame:
        return marked(rows, stays & F.col("cluster_id").isin(*self._known))

    def _of_recent_minutes(self, samples: DataFrame) -> DataFrame:
        times = {
            row["cluster_id"]: [(row["from_t"] - GAP_MS, None)] for row in self._minutes.collect()
        }
        since = samples.where(is_among(times))
        recent = since.join(F.broadcast(self._minutes), "cluster_id")
        return recent.where(F.col("t") >= F.col("from_t") - GAP_MS).select(*samples.columns)

    def _with_from_t(self, rows: DataFrame) -> DataFrame:
        return rows.join(F.broadcast(self._minutes), "cluster_id", "left")


def _with_cuts(rows: DataFrame, cuts: DataFrame) -> DataFrame:
    # both hash the few cuts; a join without a hint would sort all rows
    how = "shuffle_hash" if runs_small(rows.sparkSession) else "broadcast"
    return left_join_null_safe(rows, cuts.hint(how), PARTITION)


def _is_recent() -> Column:
    return F.coalesce(F.col("minute") >= F.timestamp_millis("from_t"), F.lit(col=False))


def _changed_spans(old: DataFrame, folds: DataFrame) -> DataFrame:
    now = run_spans(folds)
    both = old.select(*now.columns).unionByName(now)
    once = both.groupBy(*now.columns).agg(F.count("*").alias("times")).where("times = 1")
    # not the bare column: in a union Sail fails on one that has a file's notes
    return once.select(*PARTITION, (F.col("began_t") + 0).alias("t"))


def _cuts(first: DataFrame, spans: DataFrame) -> DataFrame:
    """Compute `cut_t` of each partition: the latest time up to its least `t` within no span."""
    least = first.groupBy(*PARTITION).agg(F.min("t").alias("t"))
    of_first = left_join_null_safe(least, spans.select(*PARTITION, "began_t", "ended_t"), PARTITION)
    # The spans that began last go first, so none has to be looked at twice.
    span = F.struct((-F.col("began_t")).alias("minus_began_t"), "ended_t")
    known = F.when(F.col("began_t").isNotNull(), span)
    of_partition = of_first.groupBy(*PARTITION, "t").agg(
        F.sort_array(F.collect_list(known)).alias("spans")
    )
    cut = F.aggregate("spans", F.col("t"), _before_span)
    return of_partition.select(*PARTITION, cut.alias("cut_t"))


def _before_span(cut_t: Column, span: Column) -> Column:
    began_t = -span.minus_began_t
    goes_over = (began_t < cut_t) & (span.ended_t.isNull() | (span.ended_t >= cut_t))
    return F.when(goes_over, began_t).otherwise(cut_t)


def _runs_since(spans: DataFrame, cuts: DataFrame) -> set[str]:
    of_runs = _with_cuts(spans.where("run_id IS NOT NULL"), cuts)
    since = of_runs.where("cut_t IS NOT NULL AND (ended_t IS NULL OR ended_t >= cut_t)")
    return {row["run_id"] for row in since.select("run_id").distinct().collect()}


def _times(first: DataFrame, spans: DataFrame, cuts: DataFrame) -> dict[str, list[Time]]:
    """The times, by cluster, of samples since the cuts: old ones in listings, and all new ones."""
    since = F.col("run_id").isNull() & (F.col("began_t") >= F.col("cut_t"))
    listings = _with_cuts(spans, cuts).where(since)
    until = F.coalesce("ended_t", "last_t").alias("until_t")
    times = union_by_name(
        listings.select("cluster_id", "began_t", until),
        first.select("cluster_id", F.col("t").alias("began_t")),
    )
    of_bucket = times.groupBy("cluster_id", F.expr(f"began_t div {_BUCKET_MS}")).agg(
        F.min("began_t").alias("began_t"),
        F.when(~F.bool_or(F.col("until_t").isNull()), F.max("until_t")).alias("until_t"),
    )
    found: defaultdict[str, list[Time]] = defaultdict(list)
    for row in of_bucket.collect():
        found[row["cluster_id"]].append((row["began_t"], row["until_t"]))
    return {cluster: united(of) for cluster, of in found.items()}


class Shared:
    """Results that Spark keeps from their first use until they are freed."""

    def __init__(self, samples: DataFrame, folds: DataFrame) -> None:
        self.listed = computed_once(listed_samples(samples))
        self.pairs = computed_once(rate_pairs(self.listed))
        self.folds = computed_once(folds)

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
