"""The forecasts for runs, with the time that was really left."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ktui.pipeline.lake.records import ForecastRecord
from ktui.pipeline.lake.truths import FORECASTS_WITH_TRUTH
from ktui.pipeline.report.data.lake import Tables
from ktui.pipeline.report.data.subject import Subject

_COPIES = pa.schema(
    {
        "cluster_id": pa.string(),
        "session": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "since": pa.int64(),
        "ended_t": pa.int64(),
    }
)
_NEEDED = {
    "polls": ("cluster_id", "session", "seq", "shadowed"),
    "runs": ("cluster_id", "run_id", "ended_t", "outcomes", "partitions"),
}


def run_forecasts(tables: Tables, subject: Subject) -> Sequence[ForecastRecord]:
    """Read the forecasts for the subject's runs, as the view `eta_backtest` has them, by time."""
    of_runs = subject.where() & (pc.field("scope") == "run")
    of_cluster = subject.where(of_run=False)
    found = {"forecasts": _rows(tables, "forecasts", None, of_runs)}
    for name, columns in _NEEDED.items():
        found[name] = _rows(tables, name, columns, of_cluster)
    known = {name: rows for name, rows in found.items() if rows is not None}
    if known.keys() != found.keys():
        return ()
    with duckdb.connect(config={"python_enable_replacements": False}) as connection:
        for name, rows in known.items():
            connection.register(name, rows)
        connection.register("caught_up", _COPIES.empty_table())  # runs need none
        result = connection.sql(f"{FORECASTS_WITH_TRUTH} ORDER BY run_id, t, session, seq")
        return msgspec.convert(result.to_arrow_table().to_pylist(), list[ForecastRecord])


def _rows(
    tables: Tables, table: str, columns: Sequence[str] | None, where: pc.Expression
) -> pa.Table | None:
    files = tables.dataset(table)
    if files is None:
        return None
    return files.to_table(columns=None if columns is None else [*columns], filter=where)
