"""Replay sessions from where the version before has left them, and write their forecasts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.forecast.backtest import replayed, replayed_rows
from ktui.pipeline.forecast.insights import eta_errors, summed
from ktui.pipeline.forecast.replay import FORMAT, PARTITION, RUN
from ktui.pipeline.ingest.normalize import SessionKey
from ktui.pipeline.ingest.segments import read_contents_again
from ktui.pipeline.lake.growing import marked, write_grown
from ktui.pipeline.lake.lake import NewVersion, with_truth
from ktui.pipeline.lake.manifest import SegmentRead
from ktui.pipeline.lake.tables import CAUGHT_UP, ETA_ERRORS, FORECASTS, REPLAYS
from ktui.pipeline.run.recorded_tables import LakeSessions, OnStep

SESSION = ("cluster_id", "session")
_KEPT_MS = 24 * 60 * 60 * 1000
"""The state of a session without lines for so long is dropped: its recorder has died."""

SessionKeys = Collection[SessionKey]


class _Grown(msgspec.Struct, frozen=True):
    going_on: SessionKeys  # all of their new lines come after those that were replayed before
    anew: SessionKeys
    segments: Collection[str]  # the new ones, and the older ones of `anew`

    @property
    def all(self) -> SessionKeys:
        return (*self.going_on, *self.anew)


def write_forecasts(
    version: NewVersion,
    sessions: LakeSessions,
    written: dict[str, DataFrame],
    segments: Collection[SegmentRead],
    tell: OnStep,
) -> tuple[DataFrame, Collection[str]]:
    """Write forecasts, ends of copies and replays; return new CAUGHT_UP, and sessions anew."""
    tell(FORECASTS.name)
    grown = _grown(version, sessions, written)
    contents = read_contents_again(version.spark, segments, grown.segments)
    states = version.table(REPLAYS).where(_among(grown.going_on))
    rows = version.stage(replayed(contents, states))
    ends = replayed_rows(rows, CAUGHT_UP)

    def marks(old: DataFrame) -> DataFrame:
        return marked(old, ~_among(grown.anew))

    write_grown(version, FORECASTS, replayed_rows(rows, FORECASTS), marks)
    write_grown(version, CAUGHT_UP, ends, marks)
    others = version.table(REPLAYS).where(~_among(grown.all))
    version.write(REPLAYS, _alive(others.unionByName(replayed_rows(rows, REPLAYS))))
    return ends, {session for _, session in grown.anew}


def drop_states(version: NewVersion, lines: DataFrame) -> None:
    """Drop the states of sessions with new lines, of which nothing is replayed in this version."""
    if version.known(REPLAYS):
        sessions = lines.select(*SESSION).distinct()
        version.write(REPLAYS, version.table(REPLAYS).join(sessions, [*SESSION], "left_anti"))


def _grown(version: NewVersion, sessions: LakeSessions, written: Mapping[str, DataFrame]) -> _Grown:
    lines = written["new"].select(*SESSION, "seq", "segment")
    found = lines.groupBy(*SESSION, "segment").agg(F.min("seq").alias("first")).collect()
    first: dict[tuple[str, str], int] = {}
    for cluster, session, _, seq in found:
        first[cluster, session] = min(seq, first.get((cluster, session), seq))
    last: dict[tuple[str, str], int] = {}
    if version.known(REPLAYS):
        states = version.table(REPLAYS).where(F.col("format") == FORMAT)
        last = {(row[0], row[1]): row[2] for row in states.select(*SESSION, "seq").collect()}
    going_on = sorted(each for each in first if each in last and first[each] > last[each])
    anew = sorted(first.keys() - set(going_on))
    segments = {row["segment"] for row in found} | sessions.segments(anew)
    return _Grown(going_on, anew, segments)


def _among(sessions: SessionKeys) -> Column:
    return F.col("session").isin(*sorted({session for _, session in sessions}))


def _alive(states: DataFrame) -> DataFrame:
    latest = states.groupBy("cluster_id").agg(F.max("t").alias("latest_t"))
    both = states.join(latest, "cluster_id")
    return both.where(F.col("t") >= F.col("latest_t") - _KEPT_MS).drop("latest_t")


def write_errors(
    version: NewVersion,
    polls: DataFrame,
    runs: DataFrame,
    ends: DataFrame,
    anew: Collection[str],
    run_ids: Collection[str],
) -> None:
    """Write ETA_ERRORS of new truth: of `ends`, of the sessions `anew`, and of changed runs."""
    known = sorted(version.known(ETA_ERRORS))
    if not known:
        forecasts, caught_up = version.written(FORECASTS), version.written(CAUGHT_UP)
        version.write(ETA_ERRORS, eta_errors(with_truth(forecasts, caught_up, polls, runs)))
        return
    again = ~F.col("cluster_id").isin(*known) | F.col("session").isin(*sorted(anew))
    of_runs = (F.col("scope") == RUN) & F.col("run_id").isin(*sorted(run_ids))
    ends = ends.where(~again)
    forecasts = version.written(FORECASTS).where(
        again | _of_copies(ends) | (of_runs & F.col("run_id").isin(*_done(runs, run_ids)))
    )
    caught_up = version.written(CAUGHT_UP).where(again).unionByName(ends)
    errors = eta_errors(with_truth(forecasts, caught_up, polls, runs))
    kept = version.table(ETA_ERRORS).where(~(again | F.coalesce(of_runs, F.lit(col=False))))
    version.write(ETA_ERRORS, summed(kept.unionByName(errors)))


def _of_copies(ends: DataFrame) -> Column:
    since = ends.groupBy("session").agg(F.min("since").alias("since")).collect()
    of_session = [
        (F.col("session") == session) & (F.col("seq") >= first) for session, first in sorted(since)
    ]
    return (F.col("scope") == PARTITION) & reduce(Column.__or__, of_session, F.lit(col=False))


def _done(runs: DataFrame, run_ids: Collection[str]) -> list[str]:
    if not run_ids:
        return []
    ended = runs.where(F.col("ended_t").isNotNull() & F.col("run_id").isin(*sorted(run_ids)))
    return sorted(row["run_id"] for row in ended.select("run_id").collect())
