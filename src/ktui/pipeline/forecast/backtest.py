"""The live view's time left at every moment of every recorded session, and the ends of copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType

from ktui.pipeline.forecast.replay import (
    FORMAT,
    CaughtUp,
    EtaReplay,
    Forecast,
    SavedState,
    SessionStream,
    decode_state,
    encode_state,
)
from ktui.pipeline.lake.schema import TEXT, Table, column, fit_to_table, struct_of
from ktui.pipeline.lake.tables import CAUGHT_UP, FORECASTS, REPLAYS
from ktui.recording.lines import Head
from ktui.recording.reading import GoodLine, read_lines

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
    sessions = segments.select("content").mapInArrow(_headed, _SEGMENTS)
    begun = states.select(
        "cluster_id", "session", "state", F.lit(None).cast("binary").alias("content")
    )
    both = sessions.unionByName(begun)
    return both.groupBy("cluster_id", "session").applyInArrow(_replayed, _REPLAYED)


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
