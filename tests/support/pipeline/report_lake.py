"""A lake as the pipeline leaves it, written without Spark, with the tables that a report reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
from pyarrow import dataset, parquet
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import DataFile, Manifest, SegmentRead, TablePart
from ktui.pipeline.lake.records import ReportFacts
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.tables import (
    BROKERS_BY_MINUTE,
    CAUGHT_UP,
    FORECASTS,
    LINES,
    MOVES,
    POLLS,
    QUARANTINE,
    RATES,
    RUN_EVENTS,
    RUNS,
    SAMPLES,
    STATES,
    WHAT_IF,
)

SEGMENT = "ab" * 8
CHECKSUM = SEGMENT + "cd" * 24
_TABLES = {
    table.name: table
    for table in (
        LINES, POLLS, QUARANTINE, RUN_EVENTS, SAMPLES, BROKERS_BY_MINUTE, MOVES, RATES, RUNS,
        STATES, FORECASTS, CAUGHT_UP, WHAT_IF,
    )
}  # fmt: skip

Rows = Iterable[Mapping[str, Any]]


def write_lake(folder: Path, rows: Mapping[str, Rows]) -> Path:
    """Write a lake.

    Args:
        folder: the folder of the lake.
        rows: rows by table; a missing column is null, or empty if it may not be null.
    """
    tables = {name: _write(folder, _TABLES[name], list(of)) for name, of in rows.items()}
    read = SegmentRead("recordings/one/000000.jsonl.gz", 1000, 0, CHECKSUM)
    other = SegmentRead("recordings/two/000000.jsonl.gz", 1000, 0, "ef" * 32)
    whole = Manifest(version=1, segments=(read, other), tables=tables)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / manifests.NAME).write_bytes(manifests.encode(whole))
    return folder


def dataset_of(table: str, rows: Rows) -> dataset.Dataset:
    """Return rows of a table in memory; a missing column is as in `write_lake`."""
    schema = to_arrow_schema(_TABLES[table].schema, timezone="UTC")
    whole = [_whole(schema, row) for row in rows]
    return dataset.dataset(pa.Table.from_pylist(whole, schema=schema))


def copying(t: int, end: int, **other: object) -> Mapping[str, Any]:
    """Return a sample in which broker 4 has copied up to `end`, in messages of 3 bytes."""
    return {
        "t": t, "cluster_id": "cluster-one", "topic": "orders", "topic_id": "id", "leader": 1,
        "adding": [4], "log_start": 0, "sizes": [{"broker": 1, "bytes": 3 * 10**6}],
        "ends": [
            {"broker": broker, "end": upto, "read_t": t} for broker, upto in ((1, 10**6), (4, end))
        ],
        **other,
    }  # fmt: skip


def rows_of(facts: ReportFacts) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables that express these facts of one run, except its limits."""
    run = facts.runs[0]
    of_run = {"cluster_id": facts.cluster_id, "run": run.run, "run_id": run.run_id}
    samples = {(s.key, s.t): s for s in facts.slowest}
    return {
        "runs": [_row(run) | {"outcomes": [("done", run.partitions)]}],
        "moves": [_row(move) | of_run for move in facts.moves],
        "states": [_row(one) | of_run for one in facts.intervals],
        "rates": [_row(one) | of_run for one in facts.rates],
        "brokers": [_row(one) | of_run | {"minute": _moment(one.began)} for one in facts.inflow],
        "samples": [
            _row(s) | of_run | {"seq": place, "segment": SEGMENT}
            for place, s in enumerate(samples.values())
        ],
        "polls": [
            of_run | {"t": seen.t, "brokers": [1, 4], "alive": [1, 4]} for seen in facts.in_flight
        ],
        "lines": [of_run | {"segment": SEGMENT, "kind": "run"}],
        "forecasts": [_row(g) | of_run | {"scope": "run"} for g in facts.guesses],
        "what_if": [_row(one) | of_run for one in facts.what_ifs],
    }


def _row(record: msgspec.Struct) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(record)
    return row


def _moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def _write(folder: Path, table: Table, rows: list[Mapping[str, Any]]) -> dict[str, TablePart]:
    schema = to_arrow_schema(table.schema, timezone="UTC")
    written = {}
    for cluster in sorted({row["cluster_id"] for row in rows}):
        whole = [_whole(schema, row) for row in rows if row["cluster_id"] == cluster]
        inside = f"{table.name}/lake_version=000001-0/cluster_id={quote(cluster, safe='')}"
        days = sorted({f"/date={row['date']}" if table.dated_by else "" for row in whole})
        files = []
        for day in days:
            name = f"{inside}{day}/part-0.parquet"
            (folder / name).parent.mkdir(parents=True)
            of_day = [row for row in whole if not day or day == f"/date={row['date']}"]
            found = pa.Table.from_pylist(of_day, schema=schema)
            parquet.write_table(found.drop_columns([*table.partition_columns]), folder / name)
            files.append(DataFile(name, (folder / name).stat().st_size))
        written[cluster] = TablePart(tuple(files), len(whole))
    return written


def _whole(fields: Iterable[pa.Field], row: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: _value(field, row.get(field.name)) for field in fields}


def _value(field: pa.Field, value: object) -> object:
    if value is None:
        return None if field.nullable else _empty(field.type)
    if pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
        assert isinstance(value, Iterable)
        return [_whole(field.type.value_type, each) for each in value]
    return value


def _empty(kind: pa.DataType) -> object:
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return []
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_date(kind):
        return dt.date(2026, 5, 4)
    if pa.types.is_timestamp(kind):
        return _moment(0)
    return pa.scalar(0, pa.int64()).cast(kind).as_py()
