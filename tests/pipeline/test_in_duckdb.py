"""The DuckDB script beside which the pipeline is measured makes the same tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.pipeline.same_rows import TABLES, check_same

from support.pipeline.lake_rows import lake_rows
from support.pipeline.report_lake import DrainedLake

ROOT = Path(__file__).parents[2]


def test_the_script_in_duckdb_makes_the_tables_of_the_lake_row_for_row(
    drained_lake: DrainedLake, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    job = [sys.executable, "-m", "bench.pipeline.in_duckdb.job"]
    subprocess.run([*job, str(drained_lake.recorded), str(made)], check=True, cwd=ROOT)

    compared = check_same(drained_lake.first, made)

    assert set(compared) == set(TABLES)
    rows = lake_rows(drained_lake.first)
    assert compared == {name: len(rows[name]) for name in TABLES}
    with pytest.raises(SystemExit, match="not measured: "):
        check_same(drained_lake.lake, made)  # which has another drain
