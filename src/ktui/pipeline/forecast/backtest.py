"""The live view's time left at every moment of every recorded run, compared with the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType

from ktui.pipeline.forecast.replay import RUN, EtaReplay, Forecast
from ktui.pipeline.forecast.session_stream import session_events
from ktui.pipeline.lake.enforce_schema import fit_to_table
from ktui.pipeline.lake.schema import TEXT, column, require_columns, struct_of
from ktui.pipeline.lake.tables import ETA_BACKTEST, FORECASTS, POLLS, RUNS
from ktui.pipeline.tables.windows import as_timestamp
from ktui.recording.lines import Head
from ktui.recording.reading import GoodLine, read_lines

_SEGMENTS = struct_of(
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("content", BinaryType(), "of a segment's file"),
)


def forecasts(segments: DataFrame) -> DataFrame:
    """Replay each session by itself in an executor, with the live view's own fold and estimate.

    Args:
        segments: `content` is a segment's file, compressed; other columns are ignored.
    """
    sessions = segments.select("content").mapInArrow(_headed, _SEGMENTS)
    rows = sessions.groupBy("cluster_id", "session").applyInArrow(_replayed, FORECASTS.schema)
    return fit_to_table(rows, FORECASTS)


def eta_backtest(forecasts: DataFrame, polls: DataFrame, runs: DataFrame) -> DataFrame:
    """Make the table ETA_BACKTEST: forecasts with the truth.

    Args:
        forecasts: as returned by `forecasts`.
        polls: the table POLLS; forecasts of shadowed polls are left out.
        runs: the table RUNS, for when each run ended. Runs that did not end with every partition
            done are left out.
    """
    rows = require_columns(forecasts, FORECASTS)
    polls = require_columns(polls, POLLS, ("cluster_id", "session", "seq", "shadowed"))
    seen = polls.where(~F.col("shadowed")).select("cluster_id", "session", "seq")
    rows = rows.join(seen, ["cluster_id", "session", "seq"], "left_semi")
    rows = rows.join(_done(runs), ["cluster_id", "run_id"], "left")
    of_run = (F.col("run_ended_t") - F.col("t")) / 1000
    truth = F.when(F.col("scope") == RUN, of_run).otherwise(F.col("truth_s"))
    rows = rows.withColumns({"truth_s": truth, "at": as_timestamp("t")}).where("truth_s >= 0")
    return fit_to_table(rows, ETA_BACKTEST)


def _done(runs: DataFrame) -> DataFrame:
    """Select the runs that ended with every partition done."""
    runs = require_columns(
        runs, RUNS, ("cluster_id", "run_id", "ended_t", "outcomes", "partitions")
    )
    return runs.where("ended_t is not null and outcomes['done'] = partitions").select(
        "cluster_id", "run_id", F.col("ended_t").alias("run_ended_t")
    )


_AT_ONCE = 10_000
"""The most rows that are Python objects at one time: a long session has millions."""


def _headed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the cluster and session of each segment; a segment without a head is left out."""
    for batch in batches:
        for content in batch.column("content"):
            head = _head(content.as_py())
            if head is not None:
                row = {
                    "cluster_id": [head.cluster_id],
                    "session": [head.session],
                    "content": pa.array([content.as_py()], pa.binary()),
                }
                yield pa.RecordBatch.from_pydict(row)


def _head(content: bytes) -> Head | None:
    first = next(iter(read_lines(content)), None)
    return first.line if isinstance(first, GoodLine) and isinstance(first.line, Head) else None


def _replayed(table: pa.Table) -> pa.Table:
    """Return the forecasts of one session; none where the fold fails."""
    with suppress(Exception):  # recordings are untrusted; one bad session must not stop the others
        return _forecasts_of(table)
    return _none()


def _forecasts_of(table: pa.Table) -> pa.Table:
    contents = [content.as_py() for content in table.column("content")]
    cluster_id, session = (table.column(name)[0].as_py() for name in ("cluster_id", "session"))
    replayed = EtaReplay().forecasts(session_events(contents, cluster_id))
    rows = ({"cluster_id": cluster_id, "session": session, **_row(each)} for each in replayed)
    lots = iter(lambda: pa.Table.from_pylist([*islice(rows, _AT_ONCE)], _arrow_schema()), _none())
    return pa.concat_tables([_none(), *lots])


def _row(forecast: Forecast) -> dict[str, Any]:
    left = forecast.predicted
    return {
        "seq": forecast.seq,
        "run_id": forecast.run_id,
        "scope": forecast.scope,
        "topic": forecast.topic,
        "partition": forecast.partition,
        "t": forecast.t,
        "share": forecast.share,
        "left_s": None if left is None else left.middle,
        "low_s": None if left is None else left.low,
        "high_s": None if left is None else left.high,
        "linear_s": forecast.linear_s,
        "recent_s": forecast.recent_s,
        "truth_s": forecast.truth_s,
    }


@cache
def _arrow_schema() -> pa.Schema:
    return to_arrow_schema(FORECASTS.schema)


def _none() -> pa.Table:
    return _arrow_schema().empty_table()
