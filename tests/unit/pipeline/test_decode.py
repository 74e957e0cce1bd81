"""Events decoded into tables and views."""

from __future__ import annotations

import datetime as dt
import gzip
import re
import shutil
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ktui.pipeline.ingest import decode as decoding
from ktui.pipeline.ingest.decode import ALL, KINDS, SegmentSelection, rows_of
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake import tables
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.lake.views import NAME, type_name, views_sql
from ktui.pipeline.lake.views import TABLES as VIEWS_TABLES
from ktui.pipeline.run.recorded_tables import CountedSteps
from ktui.recording.segments import Head, Line
from support.pipeline.lake_rows import looks, record
from support.pipeline.report_lake import write_lake
from support.recordings.recordings import summed, unsummed


@pytest.fixture
def texts(tmp_path: Path) -> list[bytes]:
    """The lines of a recording: a head, five polls, an end."""
    (segment,) = record(tmp_path / "recorded", looks(5)).iterdir()
    return gzip.decompress(segment.read_bytes()).splitlines(keepends=True)


def batches_of(path: str, content: bytes) -> Iterator[pa.RecordBatch]:
    return decoding._batches(path, content, ALL, to_arrow_schema(decoding.DECODED))


def rows(texts: Iterable[bytes], kind: str) -> list[dict[str, Any]]:
    content = gzip.compress(b"".join(texts))
    names = KINDS[kind].names
    found = (row for each, row in rows_of("/x/000000.jsonl.gz", content) if each == kind)
    return [dict(zip(names, row, strict=True)) for row in found]


def test_each_line_becomes_a_row_with_its_position(texts: list[bytes]) -> None:
    decoded_rows = rows(texts, "line")

    assert [row["kind"] for row in decoded_rows] == ["head", *["look"] * 5, "end"]
    assert [row["seq"] for row in decoded_rows] == list(range(7))
    assert [row["line"] for row in decoded_rows] == list(range(1, 8))
    assert all(row["decoded"] for row in decoded_rows)
    assert [row["reassigning"] for row in decoded_rows[1:6]] == [3] * 5


def test_each_partition_of_a_poll_becomes_a_sample_with_its_figures(texts: list[bytes]) -> None:
    samples = rows(texts, "sample")

    assert len(samples) == 15
    last = samples[-1]
    assert (last["topic"], last["partition"], last["adding"]) == ("orders", 2, (4,))
    assert last["ends"] == [(1, 1_000_000, 4_000), (4, 4_000, 4_000)]
    assert (last["log_start"], last["log_start_read_t"]) == (0, 4_000)
    assert last["t"] == last["ms"] == 4_000


def test_a_broker_that_is_down_is_listed_in_samples_with_replicas_on_it(tmp_path: Path) -> None:
    (segment,) = record(tmp_path, looks(1, down=[3, 7])).iterdir()

    samples = rows([gzip.decompress(segment.read_bytes())], "sample")

    assert [row["down"] for row in samples] == [[3]] * 3


def test_a_damaged_poll_is_quarantined_with_those_that_build_on_it(texts: list[bytes]) -> None:
    texts[3] = texts[3].replace(b'"ms"', b'"mz"')

    assert [row["line"] for row in rows(texts, "quarantine")] == [4, 5, 6]
    assert [row["seq"] for row in rows(texts, "sample")] == [1, 1, 1, 2, 2, 2]
    assert [row["decoded"] for row in rows(texts, "line")] == [True] * 3 + [False] * 2 + [True]


def test_a_missing_poll_makes_later_ones_unusable_until_a_complete_one(tmp_path: Path) -> None:
    (segment,) = record(tmp_path, looks(6), whole_every_s=4.0).iterdir()
    texts = gzip.decompress(segment.read_bytes()).splitlines(keepends=True)
    del texts[2]

    assert [row["line"] for row in rows(texts, "quarantine")] == [3, 4]
    assert sorted({row["seq"] for row in rows(texts, "sample")}) == [1, 5, 6]


def test_a_duplicate_line_is_decoded_once(texts: list[bytes]) -> None:
    twice = [*texts[:3], texts[2], *texts[3:], *texts]

    assert rows(twice, "quarantine") == []
    assert len(rows(twice, "line")) == 15
    plain = [{**row, "line": 0, "segment": ""} for row in rows(texts, "sample")]
    assert [{**row, "line": 0, "segment": ""} for row in rows(twice, "sample")] == plain


def test_lines_without_a_head_are_quarantined(texts: list[bytes]) -> None:
    bad = rows(texts[1:], "quarantine")

    assert {row["reason"] for row in bad} == {"there is no head before it"}
    assert {row["cluster_id"] for row in bad} == {"unknown"}
    assert rows(texts[1:], "line") == []


def test_only_the_beginning_of_a_bad_line_is_kept(texts: list[bytes]) -> None:
    texts[3] = b"\xff" + b"x" * 5_000 + b"\n"

    text = rows(texts, "quarantine")[0]["text"]

    assert text.startswith("\ufffdxxx")
    assert len(text) == 200


@pytest.mark.parametrize("cluster_id", ["", "__HIVE_DEFAULT_PARTITION__", "%" * 100])
def test_a_cluster_id_that_cannot_name_a_folder_is_quarantined(
    texts: list[bytes], cluster_id: str
) -> None:
    head = unsummed(
        texts[0].replace(b'"cluster_id":"a-cluster"', b'"cluster_id":"%b"' % cluster_id.encode())
    )
    texts[0] = summed(head)

    assert [row["reason"] for row in rows(texts, "quarantine")] == [
        "its cluster's id can be no folder's name; the rest is left out"
    ]
    assert rows(texts, "line") == []


def test_the_samples_of_a_segment_are_bounded(
    texts: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_SAMPLES", 7)

    assert len(rows(texts, "sample")) == 9
    (decoded_rows,) = rows(texts, "quarantine")
    assert decoded_rows["reason"] == "it holds more than 7 samples; the rest is left out"


def test_a_row_too_large_for_its_table_is_quarantined_and_the_rest_is_kept(
    texts: list[bytes],
) -> None:
    """A throttle of 10^30 bytes a second, in the middle of others."""
    look = unsummed(texts[2]).removesuffix(b"}")
    texts[2] = summed(
        look + b',"broker_configs":{"1":{"leader_throttle_rate":1' + b"0" * 30 + b"}}}"
    )
    texts[3] = summed(unsummed(texts[3]).removesuffix(b"}") + b',"broker_configs":{"1":null}}')
    content = gzip.compress(b"".join(texts))

    batches = list(batches_of("/x", content))

    kinds = [row["kind"] for batch in batches for row in batch.to_pylist()]
    assert sorted(set(kinds)) == ["file", "line", "quarantine", "sample"]
    assert kinds.count("line") == 7
    assert kinds.count("sample") == 12
    bad = [row["quarantine"] for batch in batches for row in batch.to_pylist() if row["quarantine"]]
    assert [(row["line"], row["reason"]) for row in bad] == [
        (3, "a figure in it is larger than a table holds")
    ] * 3


def test_a_truncated_file_of_any_length_becomes_rows(texts: list[bytes]) -> None:
    whole = gzip.compress(b"".join(texts), mtime=0)

    for length in range(0, len(whole), 7):
        for kind, row in rows_of("x", whole[:length]):
            assert len(row) == len(KINDS[kind].names)


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (ALL, True),
        (SegmentSelection(since_ms=1_500), True),
        (SegmentSelection(since_ms=2_001), False),
        (SegmentSelection(until_ms=999), False),
        (SegmentSelection(until_ms=1_000), True),
        (SegmentSelection(clusters=frozenset({"one"})), True),
        (SegmentSelection(clusters=frozenset({"other"})), False),
    ],
)
def test_a_segment_is_selected_by_its_cluster_and_its_times(
    choice: SegmentSelection, *, wanted: bool
) -> None:
    head: Line = Head(
        seq=0, at=1_000, ms=0, schema_version=1, session="s", segment=0, cluster_id="one"
    )
    assert isinstance(head, Head)

    assert choice.wants(head, [1_000, 2_000]) is wanted


PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"
DERIVED = (
    tables.FORECASTS, tables.CAUGHT_UP, tables.REPLAYS, tables.ETA_BACKTEST, tables.ETA_ERRORS,
    tables.INSIGHTS,
    tables.WHAT_IF,
)  # fmt: skip
"""Tables described in docs/insights.md, or internal to the pipeline."""
TABLES = [
    table for table in vars(tables).values() if isinstance(table, Table) and table not in DERIVED
]


def documented(name: str) -> dict[str, str]:
    """Return the documented columns of a table with their types."""
    section = PAGE.read_text(encoding="utf-8").split(f"### `{name}`\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)`(.*?) \|", section, re.MULTILINE)
    return {column: kind + null for column, kind, null in rows}


def described(schema: StructType) -> dict[str, str]:
    return {
        field.name: field.dataType.simpleString() + (", null possible" if field.nullable else "")
        for field in schema
    }


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_docs_list_each_column_with_its_type(table: Table) -> None:
    assert documented(table.name) == described(table.schema)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_partition_columns_are_columns_of_the_table(table: Table) -> None:
    assert set(table.partition_columns) <= set(table.schema.names)


def test_table_names_are_unique() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES) == 14


HOSTILE = "a:b'c%2F[1]*?=x"
DAYS = (dt.date(2026, 5, 4), dt.date(2026, 5, 5))


@pytest.fixture(params=["lake", "it's [1]* %41?", "topic=no/cluster_id=no"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A lake of two clusters, with an old version of one of its tables, and its views."""
    rows: dict[str, list[dict[str, Any]]] = {
        "moves": [{"cluster_id": HOSTILE, "topic": "orders"}, {"cluster_id": "b", "topic": "t"}],
        "polls": [{"cluster_id": HOSTILE, "date": day, "brokers": [1, 2]} for day in DAYS],
    }
    folder = write_lake(tmp_path / request.param, rows)
    shutil.copytree(folder / "moves/lake_version=000001-0", folder / "moves/lake_version=000000-9")
    shutil.copytree(folder, folder.parent / "it's 1 %41?")  # what an unquoted glob would find
    (folder / NAME).write_bytes(views_sql(_manifest(folder), f"file://{folder}"))
    return folder


def _manifest(lake: Path) -> Manifest:
    return manifests.decode((lake / manifests.NAME).read_bytes())


def _opened(lake: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute((lake / NAME).read_text(encoding="utf-8"))
    return connection


def test_views_have_the_rows_of_the_current_version_under_the_clusters_real_ids(lake: Path) -> None:
    opened = _opened(lake)

    moves = opened.execute("SELECT cluster_id, topic FROM moves ORDER BY topic").fetchall()
    polls = opened.execute("SELECT cluster_id, date, brokers FROM polls ORDER BY date").fetchall()

    assert moves == [(HOSTILE, "orders"), ("b", "t")]
    assert polls == [(HOSTILE, day, [1, 2]) for day in DAYS]


def test_every_table_has_a_view_with_its_columns_types_and_comments_even_without_rows(
    lake: Path,
) -> None:
    opened = _opened(lake)

    for table in VIEWS_TABLES:
        named = (
            "SELECT column_name, replace(data_type, '\"', ''), comment FROM duckdb_columns() "
            "WHERE table_name = ?"
        )
        assert opened.execute(named, [table.name]).fetchall() == [
            (
                each.name,
                type_name(each.dataType).replace('"', ""),
                (each.metadata or {}).get("comment"),
            )
            for each in table.schema
        ]
    assert opened.execute("SELECT count(*) FROM samples").fetchone() == (0,)


def test_a_column_that_an_older_ktui_did_not_write_is_null(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", {"runs": [{"cluster_id": "a", "plan": "p"}]})
    (file,) = _manifest(lake).tables["runs"]["a"].files
    old = parquet.read_table(lake / file.path, partitioning=None).drop_columns(["plan"])
    parquet.write_table(old, lake / file.path)
    (lake / NAME).write_bytes(views_sql(_manifest(lake), f"file://{lake}"))

    assert _opened(lake).execute("SELECT cluster_id, plan FROM runs").fetchall() == [("a", None)]


def test_forecasts_are_compared_with_the_end_of_their_run_or_copy(tmp_path: Path) -> None:
    one, other = {"cluster_id": "a", "session": "s"}, {"cluster_id": "a", "session": "t"}
    run = {"scope": "run", "run_id": "done@1", "t": 1_000}
    copy = {"scope": "partition", "topic": "orders", "partition": 0, "since": 3, "t": 2_000}
    lake = write_lake(
        tmp_path / "lake",
        {
            "polls": [one | {"seq": 3}, one | {"seq": 4, "shadowed": True}, other | {"seq": 3}],
            "runs": [
                _run("done@1", 11_000, done=2),
                _run("cancelled@1", 11_000, done=1),
                _run("under way@1", None, done=2),
            ],
            "caught_up": [one | copy | {"ended_t": 5_500}],
            "forecasts": [
                one | run | {"seq": 3, "left_s": 9.0},
                one | run | {"seq": 4},
                one | run | {"seq": 3, "t": 11_001},
                one | run | {"seq": 3, "run_id": "cancelled@1"},
                one | run | {"seq": 3, "run_id": "under way@1"},
                one | copy | {"seq": 3},
                one | copy | {"seq": 3, "since": 1},
                other | copy | {"seq": 3},
            ],
        },
    )
    (lake / NAME).write_bytes(views_sql(_manifest(lake), f"file://{lake}"))

    found = _opened(lake).execute(
        'SELECT scope, run_id, topic, t, epoch_ms("at"), left_s, truth_s FROM eta_backtest '
        "ORDER BY t"
    )

    assert found.fetchall() == [
        ("run", "done@1", None, 1_000, 1_000, 9.0, 10.0),
        ("partition", None, "orders", 2_000, 2_000, None, 3.5),
    ]


def _run(run_id: str, ended_t: int | None, *, done: int) -> dict[str, Any]:
    """Return the row of a run of two partitions."""
    outcomes = [("done", done), ("cancelled", 2 - done)]
    columns = {"ended_t": ended_t, "partitions": 2, "outcomes": outcomes}
    return {"cluster_id": "a", "run_id": run_id, **columns}


def test_views_of_a_lake_in_s3_name_it_by_the_scheme_that_duckdb_knows(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", {"runs": [{"cluster_id": "a"}]})

    text = views_sql(_manifest(lake), "s3a://bucket/lake").decode()

    assert "'s3://bucket/lake/runs/lake_version=000001-0/cluster_id=a/part-0.parquet'" in text


STEPS = (
    "decoding 3 segments", "lines", "samples", "polls and run events",
    "states", "moves", "spans", "batches", "runs", "rates", "brokers", "intakes",
)  # fmt: skip


@pytest.mark.parametrize(
    ("insights", "what_if", "of"), [(False, False, 12), (True, False, 15), (True, True, 16)]
)
def test_each_step_is_told_with_its_number_of_all_that_this_run_has(
    *, insights: bool, what_if: bool, of: int
) -> None:
    told: list[str] = []
    steps = CountedSteps(told.append, insights=insights, what_if=what_if, now=lambda: 0.0)

    for step in STEPS:
        steps(step)

    assert told == [f"{place} of {of}: {step}" for place, step in enumerate(STEPS, 1)]


def test_the_time_left_follows_from_the_time_taken_once_a_fifth_is_done() -> None:
    seconds = count(0, 10)
    told: list[str] = []
    steps = CountedSteps(told.append, insights=False, now=lambda: float(next(seconds)))

    for step in STEPS[:5]:
        steps(step)

    assert "left" not in told[0]
    assert told[4] == "5 of 12: states, about 24 s left"
