"""Count the errors of forecasts whose truth is new, and keep all other counts."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.forecast.eta_errors import eta_errors, summed
from ktui.pipeline.forecast.replay import PARTITION, RUN
from ktui.pipeline.lake.lake import NewVersion
from ktui.pipeline.lake.tables import CAUGHT_UP, ETA_ERRORS, FORECASTS
from ktui.pipeline.lake.with_truth import with_truth


class NewTruths(msgspec.Struct, frozen=True):
    """What is new about the truth of forecasts."""

    ends: DataFrame
    """The new rows of CAUGHT_UP."""
    sessions: Collection[str]
    """The sessions all of whose forecasts are counted again."""
    run_ids: Collection[str]
    """The runs with new or changed events."""


def write_errors(version: NewVersion, polls: DataFrame, runs: DataFrame, new: NewTruths) -> None:
    """Write ETA_ERRORS: a version reads only the forecasts whose truth is new.

    Args:
        version: the new version, which has its forecasts.
        polls: the table POLLS.
        runs: the table RUNS.
        new: what is new.
    """
    known = sorted(version.known(ETA_ERRORS))
    if not known:
        forecasts, caught_up = version.written(FORECASTS), version.written(CAUGHT_UP)
        version.write(ETA_ERRORS, eta_errors(with_truth(forecasts, caught_up, polls, runs)))
        return
    again = ~F.col("cluster_id").isin(*known) | F.col("session").isin(*sorted(new.sessions))
    of_runs = (F.col("scope") == RUN) & F.col("run_id").isin(*sorted(new.run_ids))
    ends = new.ends.where(~again)
    forecasts = version.written(FORECASTS).where(
        again | _of_copies(ends) | (of_runs & F.col("run_id").isin(*_done(runs, new.run_ids)))
    )
    caught_up = version.written(CAUGHT_UP).where(again).unionByName(ends)
    errors = eta_errors(with_truth(forecasts, caught_up, polls, runs))
    kept = version.table(ETA_ERRORS).where(~(again | F.coalesce(of_runs, F.lit(col=False))))
    version.write(ETA_ERRORS, summed(kept.unionByName(errors)))


def _of_copies(ends: DataFrame) -> Column:
    """Select the forecasts since the first one of any of some copies, by session."""
    since = ends.groupBy("session").agg(F.min("since").alias("since")).collect()
    of_session = [
        (F.col("session") == session) & (F.col("seq") >= first) for session, first in sorted(since)
    ]
    return (F.col("scope") == PARTITION) & reduce(Column.__or__, of_session, F.lit(col=False))


def _done(runs: DataFrame, run_ids: Collection[str]) -> list[str]:
    """Return those of some runs that have ended."""
    if not run_ids:
        return []
    ended = runs.where(F.col("ended_t").isNotNull() & F.col("run_id").isin(*sorted(run_ids)))
    return sorted(row["run_id"] for row in ended.select("run_id").collect())
