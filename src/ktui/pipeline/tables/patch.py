"""The rows of derived tables that new samples and events may change, and all others.

For each partition there is a cut: no span of it (`spans`) goes over its cut, and nothing is new
before it. So its rows from before the cut stay, and those after it follow from the samples since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.sizing import computed_once
from ktui.pipeline.lake.tables import BROKERS_BY_MINUTE, INTAKES, MOVES, SPANS, STATES
from ktui.pipeline.tables.brokers import begin_of_minute
from ktui.pipeline.tables.listings import GAP_MS
from ktui.pipeline.tables.run_folds import run_folds
from ktui.pipeline.tables.run_story import BETWEEN, ELECTING, QUEUED
from ktui.pipeline.tables.spans import run_spans
from ktui.pipeline.tables.windows import PARTITION, left_join_null_safe

_WAITS = (QUEUED, ELECTING, BETWEEN)
_LATE_MS = 2 * GAP_MS
"""A sample's figure that was not in the sample before it was read at most so long before it."""


class News(NamedTuple):
    """What has changed since tables were derived, and these tables as they were."""

    first: DataFrame
    """`PARTITION` and `t` (ms) of the first sample that is new, gone or changed."""
    run_ids: Collection[str]
    """The runs with such events."""
    sessions: Collection[str]
    """The sessions with changed lines of before."""
    old: Callable[[Table], DataFrame]
    """Returns the rows of a derived table."""
    stage: Callable[[DataFrame], DataFrame]
    """Stores rows, so that plans that read them do not have the rows' own plans within them."""


class Patch:
    """Finds what has to be computed again, and joins it with the rows that stay.

    Args:
        samples: all samples of the clusters with news.
        run_events: all events of runs of those clusters.
        news: what is new of them.

    Attributes:
        samples: the samples to compute states and moves from.
        recent: the samples to compute the tables `brokers` and `intakes` from.
        folds: as returned by `run_folds.run_folds`: the runs to compute again.
    """

    def __init__(self, samples: DataFrame, run_events: DataFrame, news: News) -> None:
        self._old = news.old
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
        self.samples = self._since_cuts(samples)
        minute = begin_of_minute(F.min("t") - _LATE_MS).alias("from_t")
        self._minutes = computed_once(first.groupBy("cluster_id").agg(minute))
        self.recent = self._of_recent_minutes(samples)
        self._cached = (with_news, first, self._minutes)

    def unpersist(self) -> None:
        """Free what is kept in memory."""
        for cached in self._cached:
            cached.unpersist()

    def applied(self, table: Table, new: DataFrame) -> DataFrame:
        """Return all rows of a derived table: the old ones that stay, and the new ones."""
        old = self._old(table)
        if table == MOVES:
            kept, new = self._before_cuts(old), self._not_before_cuts(new)
        elif table == STATES:
            is_wait = F.col("state").isin(*_WAITS)
            kept = self._before_cuts(old.where(~is_wait))
            kept = kept.unionByName(self._of_other_runs(old.where(is_wait)))
        elif table == SPANS:
            kept = self._before_cuts(old.where("run_id IS NULL"))
            kept = kept.unionByName(self._of_other_runs(old.where("run_id IS NOT NULL")))
        elif table in (BROKERS_BY_MINUTE, INTAKES):
            kept, new = self._by_minute(old, recent=False), self._by_minute(new, recent=True)
        else:
            kept = self._of_other_runs(old)
        return kept.unionByName(new)

    def _since_cuts(self, samples: DataFrame) -> DataFrame:
        since = samples.where(_since(_least(self._cuts, "cut_t")))
        return left_join_null_safe(since, self._cuts, PARTITION).where("t >= cut_t").drop("cut_t")

    def _of_recent_minutes(self, samples: DataFrame) -> DataFrame:
        least = _least(self._minutes, "from_t")
        since = samples.where(_since(None if least is None else least - GAP_MS))
        recent = since.join(F.broadcast(self._minutes), "cluster_id")
        return recent.where(F.col("t") >= F.col("from_t") - GAP_MS).select(*samples.columns)

    def _before_cuts(self, rows: DataFrame) -> DataFrame:
        joined = left_join_null_safe(rows, self._cuts, PARTITION)
        return joined.where("cut_t IS NULL OR began_t < cut_t").drop("cut_t")

    def _not_before_cuts(self, rows: DataFrame) -> DataFrame:
        joined = left_join_null_safe(rows, self._cuts, PARTITION)
        return joined.where("began_t >= cut_t").drop("cut_t")

    def _of_other_runs(self, rows: DataFrame) -> DataFrame:
        return rows.where(~F.col("run_id").isin(*self._runs))

    def _by_minute(self, rows: DataFrame, *, recent: bool) -> DataFrame:
        joined = rows.join(F.broadcast(self._minutes), "cluster_id", "left")
        is_recent = F.col("minute") >= F.timestamp_millis("from_t")
        is_recent = F.coalesce(is_recent, F.lit(col=False))
        return joined.where(is_recent if recent else ~is_recent).select(*rows.columns)


def _changed_spans(old: DataFrame, folds: DataFrame) -> DataFrame:
    """Select `PARTITION` and `t`, the begin, of the spans of runs that are not as they were."""
    now = run_spans(folds)
    both = old.select(*now.columns).unionByName(now)
    once = both.groupBy(*now.columns).agg(F.count("*").alias("times")).where("times = 1")
    return once.select(*PARTITION, F.col("began_t").alias("t"))


def _cuts(first: DataFrame, spans: DataFrame) -> DataFrame:
    """Compute `cut_t` for each partition: the latest time up to `t` that is within no span.

    Args:
        first: `PARTITION` and `t`; the least one of a partition counts.
        spans: the old spans. One that ends at the cut goes over it.
    """
    # The spans that began last go first, so none has to be looked at twice.
    span = F.struct((-F.col("began_t")).alias("minus_began_t"), "ended_t")
    of_partition = spans.groupBy(*PARTITION).agg(F.sort_array(F.collect_list(span)).alias("spans"))
    least = first.groupBy(*PARTITION).agg(F.min("t").alias("t"))
    cut = F.aggregate("spans", F.col("t"), _before_span)
    return left_join_null_safe(least, of_partition, PARTITION).select(
        *PARTITION, F.coalesce(cut, F.col("t")).alias("cut_t")
    )


def _before_span(cut_t: Column, span: Column) -> Column:
    began_t = -span.minus_began_t
    goes_over = (began_t < cut_t) & (span.ended_t.isNull() | (span.ended_t >= cut_t))
    return F.when(goes_over, began_t).otherwise(cut_t)


def _runs_since(spans: DataFrame, cuts: DataFrame) -> set[str]:
    """Return the runs that did something with a partition after its cut."""
    of_runs = left_join_null_safe(spans.where("run_id IS NOT NULL"), cuts, PARTITION)
    since = of_runs.where("cut_t IS NOT NULL AND (ended_t IS NULL OR ended_t >= cut_t)")
    return {row["run_id"] for row in since.select("run_id").distinct().collect()}


def _since(t: int | None) -> Column:
    """Select samples by their folders' dates, and by `t`; without a time, none."""
    if t is None:
        return F.lit(col=False)
    return (F.col("date") >= F.to_date(F.timestamp_millis(F.lit(t)))) & (F.col("t") >= t)


def _least(rows: DataFrame, column: str) -> int | None:
    least: int | None = rows.agg(F.min(column).alias("least")).collect()[0]["least"]
    return least
