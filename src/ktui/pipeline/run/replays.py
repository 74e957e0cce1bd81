"""Replay sessions from where the version before has left them, and write their forecasts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType

from ktui.pipeline.forecast.insights import eta_errors, summed
from ktui.pipeline.forecast.replay import (
    FORMAT,
    PARTITION,
    RUN,
    CaughtUp,
    EtaReplay,
    Forecast,
    SavedState,
    SessionStream,
    decode_state,
    encode_state,
)
from ktui.pipeline.ingest.normalize import SessionKey
from ktui.pipeline.ingest.segments import read_contents_again
from ktui.pipeline.lake.engine import in_pairs, schema_on
from ktui.pipeline.lake.lake import NewVersion, marked, with_truth, write_grown
from ktui.pipeline.lake.manifest import SegmentRead
from ktui.pipeline.lake.schema import TEXT, Table, column, fit_to_table, struct_of
from ktui.pipeline.lake.tables import CAUGHT_UP, ETA_ERRORS, FORECASTS, REPLAYS
from ktui.pipeline.run.recorded_tables import LakeSessions, OnStep
from ktui.recording.reading import GoodLine, read_lines
from ktui.recording.segments import Head

_SEGMENTS = struct_of(
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("state", BinaryType(), "of the replay so far; null of a segment", null=True),
    column("content", BinaryType(), "of a segment's file; null of a state", null=True),
)
_KINDS = {"forecast": FORECASTS, "caught_up": CAUGHT_UP, "replay": REPLAYS}
_REPLAYED = struct_of(
    column("cluster_id", TEXT),
    column("session", TEXT),
    *(column(name, table.schema, null=True) for name, table in _KINDS.items()),
)
"""One column besides the session is not null."""


def replayed(segments: DataFrame, states: DataFrame) -> DataFrame:
    """Replay each session by itself in an executor, with the live view's own fold and estimate.

    `segments.content` is a segment's file, compressed. `states` are rows of REPLAYS: their sessions
    go on from there. Rows of the result are for `replayed_rows`.
    """
    sessions = segments.select("content").mapInArrow(_headed, schema_on(segments, _SEGMENTS))
    begun = states.select(
        "cluster_id", "session", "state", F.lit(None).cast("binary").alias("content")
    )
    both = sessions.unionByName(begun)
    return both.groupBy("cluster_id", "session").applyInArrow(_replayed, schema_on(both, _REPLAYED))


def replayed_rows(rows: DataFrame, table: Table) -> DataFrame:
    """Select one table's rows from what `replayed` returns."""
    (kind,) = (name for name, each in _KINDS.items() if each == table)
    return fit_to_table(rows.where(F.col(kind).isNotNull()).select(f"{kind}.*"), table)


_AT_ONCE = 10_000  # the most rows that are Python objects at one time: a long session has millions


def _headed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the cluster and session of each segment; a segment without a head is left out."""
    for batch in batches:
        for content in batch.column("content"):
            head = _head(content.as_py())
            if head is not None:
                row = {
                    "cluster_id": [head.cluster_id],
                    "session": [head.session],
                    "state": pa.nulls(1, pa.binary()),
                    "content": pa.array([content.as_py()], pa.binary()),
                }
                yield pa.RecordBatch.from_pydict(row)


def _head(content: bytes) -> Head | None:
    first = next(iter(read_lines(content)), None)
    return first.line if isinstance(first, GoodLine) and isinstance(first.line, Head) else None


def _replayed(table: pa.Table) -> pa.Table:
    rows = _rows_of(table)
    lots = iter(lambda: pa.Table.from_pylist([*islice(rows, _AT_ONCE)], _arrow_schema()), _none())
    return pa.concat_tables([_none(), *lots])


def _rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    states = [state.as_py() for state in table.column("state") if state.is_valid]
    contents = [content.as_py() for content in table.column("content") if content.is_valid]
    cluster_id, session = (table.column(name)[0].as_py() for name in ("cluster_id", "session"))
    try:
        saved = decode_state(states[0]) if states else SavedState()
    except msgspec.MsgspecError:
        return  # damaged: once the session grows, it is replayed from its first segment
    key = {"cluster_id": cluster_id, "session": session}
    for kind, row in _results(saved, SessionStream(cluster_id, saved.place), contents):
        yield key | {kind: key | row}


def _results(
    saved: SavedState, stream: SessionStream, contents: Iterable[bytes]
) -> Iterator[tuple[str, dict[str, Any]]]:
    events = stream.events(contents)
    state = saved.replay
    if state is not None:
        try:
            for each in EtaReplay(state=state).replay(events):
                yield _row(each)
        except Exception:  # noqa: BLE001 - untrusted; one bad session must not stop the others
            state = None
    for _ in events:  # of a session that cannot be folded
        pass
    place = stream.place
    if place is not None and not place.ended:
        content = encode_state(SavedState(place, state))
        yield "replay", {"seq": place.seq, "t": place.t, "format": FORMAT, "state": content}


def _row(result: Forecast | CaughtUp) -> tuple[str, dict[str, Any]]:
    row = msgspec.structs.asdict(result)
    if isinstance(result, CaughtUp):
        return "caught_up", row
    left = result.predicted
    if left is not None:
        row |= {"left_s": left.middle, "low_s": left.low, "high_s": left.high}
    return "forecast", row


@cache
def _arrow_schema() -> pa.Schema:
    return to_arrow_schema(_REPLAYED)


def _none() -> pa.Table:
    return _arrow_schema().empty_table()


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
    since_first: Column = in_pairs(Column.__or__, [F.lit(col=False), *of_session])
    return (F.col("scope") == PARTITION) & since_first


def _done(runs: DataFrame, run_ids: Collection[str]) -> list[str]:
    if not run_ids:
        return []
    ended = runs.where(F.col("ended_t").isNotNull() & F.col("run_id").isin(*sorted(run_ids)))
    return sorted(row["run_id"] for row in ended.select("run_id").collect())
