"""Time for the pipeline to compute states, against DuckDB and Polars on the same samples.

Install DuckDB and Polars with `pip install duckdb polars`. Without them only Spark is timed.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.state_samples import write
from ktui.pipeline.spark.session import start
from ktui.pipeline.tables.intervals import intervals
from ktui.pipeline.tables.listings import listed_samples

SAMPLES = (1_000_000, 10_000_000, 100_000_000)
BESIDE_MOST = 10_000_000
"""Most samples for which the others are timed too."""
RUNS = 3


def run() -> None:
    """Print seconds, samples per second and core, growth, and ratios; check that all agree."""
    spark = start(f"local[{os.cpu_count()}]", more={"spark.driver.memory": "8g"})
    per_sample: dict[int, float] = {}
    for samples in SAMPLES:
        with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
            folder = Path(name) / "samples"
            write(spark, samples, folder)
            jobs: dict[str, Callable[[], Any]] = {"Spark": partial(_spark, spark, folder)}
            jobs |= _others(folder) if samples <= BESIDE_MOST else {}
            taken = _in_turn(jobs, RUNS if samples <= BESIDE_MOST else 1)
        per_sample[samples] = taken["Spark"] / samples
        _report(samples, taken, per_sample)
    spark.stop()


def _spark(spark: Any, folder: Path) -> int:
    return int(intervals(listed_samples(spark.read.parquet(str(folder)))).toArrow().num_rows)


def _others(folder: Path) -> dict[str, Callable[[], Any]]:
    files = f"{folder}/*.parquet"
    known: dict[str, Callable[[], Any]] = {
        "duckdb": lambda: _duckdb(files),
        "polars": lambda: _polars(files),
    }
    return {name: job for name, job in known.items() if importlib.util.find_spec(name)}


def _duckdb(files: str) -> int:
    import duckdb  # noqa: PLC0415 - it may be missing

    sql = Path(__file__).with_name("states_duckdb.sql").read_text(encoding="utf-8")
    return len(duckdb.execute(sql, {"samples": files}).fetchall())


def _polars(files: str) -> int:
    from bench.states_polars import intervals as in_polars  # noqa: PLC0415 - it may be missing

    return in_polars(files).height


def _in_turn(jobs: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Run each once uncounted, then all in turn; return the median seconds of each."""
    found = {name: job() for name, job in jobs.items()}
    if len(set(found.values())) > 1:
        raise SystemExit(f"the jobs find different numbers of intervals: {found}")
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            taken[name].append(time.perf_counter() - started)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def _report(samples: int, taken: dict[str, float], per_sample: dict[int, float]) -> None:
    seconds, first = taken["Spark"], next(iter(per_sample.values()))
    per_core = samples / seconds / (os.cpu_count() or 1)
    words = [
        f"{samples:>11,} samples: Spark {seconds:.1f} s, {per_core:,.0f} per second and core",
        f"{per_sample[samples] / first:.2f} times the time per sample of the smallest",
    ]
    others = ((name, taken[name]) for name in taken.keys() - {"Spark"})
    words += (f"{name} {s:.1f} s: Spark takes {seconds / s:.2f} times that" for name, s in others)
    print("; ".join(words))
