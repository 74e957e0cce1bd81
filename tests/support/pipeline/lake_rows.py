"""Small recordings of moving partitions, and the tables of lakes as comparable rows."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.pipeline.ingest import normalize, segments
from ktui.pipeline.ingest.decode import SegmentSelection, decode
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake import tables as schemas
from ktui.pipeline.lake import tables as stage_schemas
from ktui.pipeline.lake.engine import on_sail
from ktui.pipeline.lake.schema import Table, fit_to_table
from ktui.pipeline.lake.sizing import computed_once, forget
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, run
from ktui.pipeline.sql import DuckLake
from ktui.pipeline.tables.patch import Shared, derived_tables
from ktui.pipeline.tables.runs import run_folds
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import VirtualClock
from support.simulated.observations import START, a_move, an_observation

Rows = list[dict[str, Any]]
TABLES = (
    schemas.SAMPLES,
    schemas.POLLS,
    schemas.RUN_EVENTS,
    schemas.QUARANTINE,
    stage_schemas.STATES,
    stage_schemas.MOVES,
    stage_schemas.BATCHES,
    stage_schemas.RUNS,
    stage_schemas.RATES,
    stage_schemas.BROKERS_BY_MINUTE,
)
_ELSEWHERE = {"ms", "segment"}
"""Columns that only show where a row was read."""


def piped(spark: SparkSession, recordings: Path, lake: Path) -> dict[str, Rows]:
    """Run the pipeline, and return every table of the lake."""
    run(spark, PipelineRequest((str(recordings),), str(lake)))
    return lake_rows(lake)


def worked_out_of(spark: SparkSession, recordings: Path) -> dict[str, Rows]:
    """Return every table as the stages compute it, without a lake, for many clusters at once.

    Each table must have exactly the columns and types that its schema names.
    """
    found_files = segments.find(spark, [str(recordings)]).files
    files, _ = segments.without_copies(spark, found_files, ())
    decoded = decode(SegmentSelection())(segments.contents(spark, files))
    decoded = computed_once(decoded)

    def of(kind: str) -> DataFrame:
        return decoded.where(decoded["kind"] == kind).select(f"{kind}.*")

    copies = computed_once(normalize.copies(of("line")))
    counted = copies.where("counts")
    sessions = computed_once(normalize.sessions(counted))
    samples = computed_once(normalize.samples(of("sample"), copies, sessions))
    events = computed_once(normalize.run_events(counted, sessions))
    settled = (
        (schemas.SAMPLES, samples),
        (schemas.POLLS, normalize.polls(counted, sessions)),
        (schemas.RUN_EVENTS, events),
        (schemas.QUARANTINE, of("quarantine")),
    )
    shared = Shared(samples, run_folds(events))
    derived = ((table, rows) for table, rows, _ in derived_tables(samples, events, shared))
    found = {}
    for table, rows in (*settled, *derived):
        whole = fit_to_table(rows, table)
        assert_documented(whole, table)
        found[table.name] = rows_of(whole.toArrow(), table.name)
    for kept in (decoded, copies, sessions, samples, events):
        forget(kept)
    shared.unpersist()
    return found


def assert_documented(rows: DataFrame, table: Table) -> None:
    """Assert that rows have the columns, types and comments of a table; Sail takes no comments."""
    assert _documented(rows, rows.schema) == _documented(rows, table.schema)


def _documented(rows: DataFrame, schema: StructType) -> list[tuple[str, str, str]]:
    return [
        (
            field.name,
            field.dataType.simpleString(),
            "" if on_sail(rows) else (field.metadata or {}).get("comment", ""),
        )
        for field in schema
    ]


def lake_rows(lake: Path, tables: Iterable[Table] = TABLES) -> dict[str, Rows]:
    """Return every table of a lake."""
    return {table.name: rows_of(lake_table(lake, table), table.name) for table in tables}


def lake_table(lake: Path, table: Table) -> pa.Table:
    """Read a table of a lake without Spark, whose jobs take far longer than their few rows."""
    manifest = manifests.decode((lake / manifests.NAME).read_bytes())
    parts = manifest.tables.get(table.name, {}).values()
    files = [str(lake / file.path) for part in parts for file in part.files]
    schema = to_arrow_schema(table.schema, timezone="UTC")
    if table in schemas.VIEWS:
        found = DuckLake.open(str(lake)).rows(f"FROM {table.name}")
        return pa.Table.from_pylist(found, schema)
    if not files:
        return schema.empty_table()
    folders = pa.schema([schema.field(name) for name in table.partition_columns])
    found = dataset.dataset(files, partitioning=dataset.HivePartitioning(folders))
    return found.to_table(columns=table.schema.names)


def rows_of(table: pa.Table, name: str) -> Rows:
    """Return the rows of a table, with times in milliseconds."""
    names = [each for each in table.column_names if each not in _ELSEWHERE]
    columns = [_values(table.column(each)) for each in names]
    return [_plain(dict(zip(names, row, strict=True)), name) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(kind):
        return [dict(each) for each in values]
    return [
        [list(part.items()) if isinstance(part, dict) else part for part in each]
        if isinstance(each, list)
        else each
        for each in values
    ]


def _plain(plain: dict[str, Any], name: str) -> dict[str, Any]:
    match name:
        case "moves" if plain["limits"] is not None:
            plain["limits"] = json.loads(plain["limits"])
        case "polls":
            plain["failures"] = len(plain["failures"])
        case "quarantine":
            return {"file": plain["file"].removeprefix("file:"), "line": plain["line"]}
        case "brokers":
            plain["minute_t"] = plain.pop("minute")
        case "samples":
            plain.pop("line")
    return plain


def without(tables: dict[str, Rows], *columns: str) -> dict[str, Rows]:
    """Return the tables without some columns."""
    return {
        name: [{key: row[key] for key in row if key not in columns} for row in rows]
        for name, rows in tables.items()
    }


def assert_same(made: Rows, expected: Rows, what: str) -> None:
    """Compare rows with others, in any order; floats may differ by one part in 10^9."""
    left, right = _by_whole(made), _by_whole(expected)
    extra = [key for key in left if len(left[key]) != len(right.get(key, ()))]
    missing = [key for key in right if len(right[key]) != len(left.get(key, ()))]
    assert not extra, f"{what}: made, not expected (of {len(made)}): {_some(extra, missing)}"
    assert not missing, f"{what}: expected, not made: {_some(missing, extra)}"
    for key, figures in left.items():
        for one, other in zip(sorted(figures), sorted(right[key]), strict=True):
            near = [math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one, other, strict=True)]
            assert all(near), f"{what}: {one} is not {other} in {key}"


def _by_whole(rows: Iterable[dict[str, Any]]) -> dict[str, list[tuple[float, ...]]]:
    """Return the floats of the rows by all their other values, as text."""
    found: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    for row in rows:
        whole = {
            key: type(value).__name__ if isinstance(value, float) else value
            for key, value in row.items()
        }
        figures = (row[key] for key in sorted(row) if isinstance(row[key], float))
        found[json.dumps(whole, sort_keys=True)].append(tuple(figures))
    return found


def _some(keys: list[str], others: list[str]) -> str:
    """Quote a few keys, and a few of the other side."""
    near = sorted(others)[:3]
    return "\n".join(["", *sorted(keys)[:3], "the other side has", *near])


MOVING = tuple(TopicPartition("orders", number) for number in range(3))


_BLOCKS = re.compile(r"```python\n# (\w+)[^\n]*\n(.*?)```", re.DOTALL)


def lines_in(readme: str) -> dict[str, str]:
    """Return the lines that a README has for each program."""
    return dict(_BLOCKS.findall(readme))


def looks(count: int, *, from_s: float = 0.0, **more: Any) -> Iterator[Observation]:
    """Yield one observation per second of three partitions, to each of which broker 4 is added."""
    for second in range(count):
        at_s = from_s + second
        ends = {(tp, 4): round(1_000 * at_s) for tp in MOVING}
        ends |= {(tp, 1): 1_000_000 for tp in MOVING}
        moves = [a_move(tp) for tp in MOVING]
        starts = dict.fromkeys(MOVING, 0)
        yield an_observation(moves, at_s, ends=ends, starts=starts, **more)


def record(
    folder: Path, observations: Iterator[Observation], *, close: bool = True, **how: Any
) -> Path:
    """Record observations as one session, and return its folder."""
    recorder = Recorder(folder, VirtualClock(START, leaping=True), program="tests", **how)
    for seen in observations:
        recorder.poll(seen)
    if close:
        recorder.close()
    assert recorder.problem is None
    assert recorder.path is not None
    return recorder.path


def into_lake(spark: SparkSession, lake: Path, *recordings: Path, **more: Any) -> PipelineOutcome:
    """Bring a lake up to date."""
    return run(spark, PipelineRequest(tuple(map(str, recordings)), str(lake), **more))


def rows(lake: Path, table: Table, columns: Sequence[str], **where: Any) -> list[tuple[Any, ...]]:
    """Return some columns of a table's rows, sorted."""
    found = lake_table(lake, table).to_pylist()
    chosen = (row for row in found if all(row[name] == value for name, value in where.items()))
    return sorted((tuple(row[name] for name in columns) for row in chosen), key=repr)
