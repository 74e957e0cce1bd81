"""`views.sql` shows DuckDB exactly one version of a lake, wherever the lake is."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import parquet

from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.views import NAME, TABLES, type_name, views_sql
from support.pipeline.report_lake import write_lake

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

    for table in TABLES:
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
