"""Lakes as the pipeline leaves them: written without Spark for reports, and of drains."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
from pyarrow import dataset, parquet
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.execution.journal.commands import SetThrottle
from ktui.insights import NAME, insights_in
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.derived import DerivedOptions, WhatIfOptions
from ktui.pipeline.forecast.play import GridCell
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
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, run
from ktui.planning.throttle_rates import parse_throttle_rates
from support.pipeline.lake_rows import lake_table
from support.recordings.drained_recordings import MB, drained, driven

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


SIZES = [300 * MB, 500 * MB, 400 * MB, 200 * MB, 600 * MB, 350 * MB]
SMALL_SIZES = [30 * MB, 50 * MB, 40 * MB, 20 * MB, 60 * MB, 35 * MB]
_FOUR = Limits(partitions=4, replicas=1)
CELLS = (
    GridCell(Limits(partitions=1, replicas=1)),
    GridCell(_FOUR),
    GridCell(_FOUR, parse_throttle_rates("10MB")),
    GridCell(_FOUR, parse_throttle_rates("3MB")),
)
_CHANGED = {25.0: "1MB", 80.0: "3MB"}
"""The throttle of cluster c, by the second at which it is changed."""


class DrainedLake:
    """A lake in three states, each made by one run of the pipeline.

    `first` has two drains of cluster a, an hour apart, a small one of b, one of c, of which nothing
    was copied without a throttle, and one of d, whose rates two promises chose; `recorded` has
    their recordings. Then its file of insights was lost, and a run without simulations made it
    again. `lake` is after a further drain of b, whose first recording is gone by then, with a
    window for all runs.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._recordings, self.lake = spark, folder / "recordings", folder / "lake"
        self._drain("two", "a", SIZES, partitions=2)
        self._drain("three", "a", SIZES, partitions=3, hours=1)
        self._drain("alone", "b", SIZES[:2])
        drained(
            self._recordings,
            sizes=SMALL_SIZES,
            limits=_FOUR,
            name="throttled",
            cluster="c",
            throttle=parse_throttle_rates("4MB"),
            asked={at: SetThrottle(parse_throttle_rates(rate)) for at, rate in _CHANGED.items()},
        )
        driven(self._recordings, within_s=60, sizes=SMALL_SIZES, name="driven", cluster="d")
        self.outcome = self._run(DerivedOptions(WhatIfOptions(CELLS, all_runs=False)))
        self.first, self.recorded = folder / "first", folder / "recorded first"
        shutil.copytree(self.lake, self.first)
        shutil.copytree(self._recordings, self.recorded)

        (self.lake / NAME).unlink()
        self.nothing_new = self._run(DerivedOptions())
        self.made_again = insights_in(self.lake)

        for segment in (self._recordings / "alone").rglob("*.gz"):
            segment.unlink()
        self._drain("later", "b", SIZES[:2], hours=2)
        self.later = self._run(DerivedOptions(WhatIfOptions(CELLS, window_s=3600.0)))

    def _drain(
        self,
        name: str,
        cluster: str,
        sizes: list[int],
        *,
        partitions: int | None = None,
        hours: float = 0.0,
    ) -> None:
        limits = Limits(replicas=1, partitions=partitions)
        drained(
            self._recordings, sizes=sizes, limits=limits, name=name, cluster=cluster, hours=hours
        )

    def _run(self, asked: DerivedOptions) -> PipelineOutcome:
        request = PipelineRequest((str(self._recordings),), str(self.lake), asked=asked)
        return run(self._spark, request)


def records_of(lake: Path, table: Table, **where: str) -> list[Row]:
    """Return rows of a table as records, chosen by values of some columns."""
    rows = lake_table(lake, table).to_pylist()
    return [Row(**row) for row in rows if all(row[name] == value for name, value in where.items())]
