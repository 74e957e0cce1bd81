"""Both engines make the same lake, of odd clusters and damaged segments, in several versions."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest

from ktui.pipeline.forecast.replay import decode_state
from ktui.pipeline.lake.tables import REPLAYS, SESSIONS, VIEWS
from ktui.pipeline.lake.views import TABLES
from support.pipeline.lake_rows import lake_table
from support.recordings.taped_runs import (
    cut_at_random,
    tapes_of,
    tapes_of_runs,
    with_garbage,
    with_losses,
    write,
)
from support.recordings.wild_recordings import wild_tapes

pytestmark = pytest.mark.skipif(
    find_spec("pysail") is None or not hasattr(pyspark, "SparkContext"),
    reason="needs both engines: make test-sail has them",
)
_FROZEN = Path(__file__).parents[2] / "bench" / "forecast" / "recordings"


def _run(engine: str, lake: Path, *recordings: Path, how: str = "--what-if") -> None:
    places = [word for each in recordings for word in ("--recordings", str(each))]
    words = ["run", "--engine", engine, "--lake", str(lake), how, "--keep-insights", *places]
    # a session of Sail in this process has told PySpark to connect
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("SPARK_")}
    environment["KTUI_STATE_DIR"] = str(lake.parent / f"state-{engine}")
    command = [sys.executable, "-m", "ktui", "pipeline", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def _cells(lake: Path) -> dict[str, Counter[str]]:
    """Return the rows of every table, and how often each is there.

    Floats have twelve digits: percentiles of Spark 4.2 and 4.3 differ in the last of sixteen.
    """
    found = {}
    for table in TABLES:
        if table not in VIEWS:
            rows = lake_table(lake, table).to_pylist()
            found[table.name] = Counter(_row(row, table.name) for row in rows)
    return found


def _row(row: dict[str, Any], table: str) -> str:
    if table == SESSIONS.name:
        row["versions"] = len(row["versions"])  # the names of folders are random
    if table == REPLAYS.name:
        row["state"] = decode_state(row["state"]).place  # sets in it are in any order
    if "outcomes" in row:
        row["outcomes"] = sorted(row["outcomes"])
    if "insights" in row:
        row["insights"] = json.loads(row["insights"])
    whole = json.dumps(row, sort_keys=True, default=repr)
    return json.dumps(json.loads(whole, parse_float=_twelve_digits))


def _twelve_digits(figure: str) -> str:
    return f"{float(figure):.12g}"


def _assert_same(one: Path, other: Path) -> None:
    left, right = _cells(one), _cells(other)
    for table, rows in left.items():
        assert rows - right[table] == right[table] - rows == Counter(), table
    assert sum(rows.total() for rows in left.values()) > 500


def test_both_engines_make_the_same_cells_of_odd_clusters_version_by_version(
    tmp_path: Path,
) -> None:
    dice = random.Random("engines")  # noqa: S311 - a test's dice
    first, later = tmp_path / "first", tmp_path / "later"
    for tape in (*tapes_of_runs(range(2)), *tapes_of(range(3)), *wild_tapes(range(8))):
        files = cut_at_random(tape, dice)
        spoil = dice.choice((None, with_losses, with_garbage))
        files = files if spoil is None else list(spoil(files, dice))
        half = max(1, len(files) // 2)
        write(first, files[:half])
        write(later, files[half:])

    for engine in ("spark", "sail"):
        _run(engine, tmp_path / engine, first)
    _assert_same(tmp_path / "spark", tmp_path / "sail")

    for engine in ("spark", "sail"):
        _run(engine, tmp_path / engine, later)
    _assert_same(tmp_path / "spark", tmp_path / "sail")


def test_a_lake_that_the_engines_write_in_turn_is_that_of_one(tmp_path: Path) -> None:
    parts = [_FROZEN / "frozen-1" / name for name in ("1-throttled", "6-broker-dies")]
    for n, engines in enumerate((("spark", "spark"), ("spark", "sail"), ("sail", "spark"))):
        for engine, part in zip(engines, parts, strict=True):
            _run(engine, tmp_path / str(n), part, how="--no-insights")

    _assert_same(tmp_path / "0", tmp_path / "1")
    _assert_same(tmp_path / "0", tmp_path / "2")
