"""The cost of `ktui pipeline run` with Sail beside Spark, with insights; all cells are compared.

`KTUI_BENCH_SAIL` names the Python of an environment with the extra `pipeline-sail`, whose PySpark
may be another one than here. `KTUI_BENCH_SAMPLES` names other sizes. Linux only.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import duckdb

from bench.checks import check_count
from bench.pipeline.measuring import Taken, as_text, command_time, count_orphans
from bench.pipeline.recordings import kept
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.tables import VIEWS
from ktui.pipeline.lake.views import TABLES

SAMPLES = (20_000, 200_000)
CPU_AIM, WALL_AIM = 0.25, 0.33
_OWN = {
    "sessions": "EXCLUDE (versions)",  # the names of folders
    "replays": "EXCLUDE (state)",  # has sets, in any order
}
"""The columns that differ between any two lakes."""


def run() -> None:
    """Print the times of both engines for each size, and their ratio."""
    count_orphans()
    sail = os.environ.get("KTUI_BENCH_SAIL")
    if sail is None:
        raise SystemExit("not measured: KTUI_BENCH_SAIL names no Python with pysail")
    named = os.environ.get("KTUI_BENCH_SAMPLES")
    sizes = SAMPLES if not named else tuple(int(float(size)) for size in named.split(","))
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
        folder = Path(name)
        few, _ = kept(sizes[0], sizes[0] // 100)
        _timed(sys.executable, few, folder, "spark")  # which keeps Spark's classes
        for samples in sizes:
            recordings, _ = kept(samples, samples // 100)
            spark = _timed(sys.executable, recordings, folder, "spark")
            on_sail = _timed(sail, recordings, folder, "sail")
            cells = _same(folder / "spark", folder / "sail")
            print(
                f"{samples:>9,} samples with insights: Spark {as_text([spark])}; Sail "
                f"{as_text([on_sail])}: {on_sail.cpu / spark.cpu:.2f} times the CPU (aim: "
                f"{CPU_AIM}), {on_sail.wall / spark.wall:.2f} times the time (aim: {WALL_AIM}); "
                f"{cells:,} cells, none different",
                flush=True,
            )


def _timed(python: str, recordings: Path, folder: Path, engine: str) -> Taken:
    lake = folder / engine
    shutil.rmtree(lake, ignore_errors=True)
    command = [python, "-m", "ktui", "pipeline", "run", "--engine", engine, "--lake", str(lake)]
    command += ["--recordings", str(recordings), "--state-dir", str(folder / "state")]
    return command_time(command, XDG_CACHE_HOME=str(folder / "cache"))


def _same(one: Path, other: Path) -> int:
    """Compare all tables of two lakes, in any order of rows; return how many cells they have.

    Raises:
        SystemExit: a cell differs.
    """
    cells = 0
    with duckdb.connect() as db:
        for table in (each.name for each in TABLES if each not in VIEWS):
            for side, lake in (("one", one), ("other", other)):
                files = _files(lake, table)
                columns = f"{_OWN.get(table, '')}"
                found = f"read_parquet({files}, hive_partitioning = true, union_by_name = true)"
                db.execute(
                    f"CREATE OR REPLACE VIEW {side} AS SELECT * {columns} FROM {found}"
                    if files
                    else f"CREATE OR REPLACE VIEW {side} AS SELECT 1 WHERE false"
                )
            names = [row[0] for row in db.execute("DESCRIBE one").fetchall()]
            chosen = ", ".join(f'"{name}"' for name in names if name != "lake_version")
            for left, right in (("one", "other"), ("other", "one")):
                more = f"SELECT {chosen} FROM {left} EXCEPT ALL SELECT {chosen} FROM {right}"
                check_count(f"rows of {table} that only {left} has", _count(db, more), 0)
            cells += _count(db, "FROM one") * len(names)
    return cells


def _count(db: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0])


def _files(lake: Path, table: str) -> list[str]:
    manifest = manifests.decode((lake / manifests.NAME).read_bytes())
    parts = manifest.tables.get(table, {}).values()
    return [str(lake / file.path) for part in parts for file in part.files]
