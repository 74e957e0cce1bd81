"""Time for the pipeline to compute states, against DuckDB and Polars on the same samples.

All must find the same intervals. DuckDB and Polars come with the extra `dev`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from bench.checks import check_count
from bench.pipeline.state_samples import write
from bench.pipeline.states_polars import intervals as intervals_in_polars
from ktui.pipeline.spark.session import start
from ktui.pipeline.tables.intervals import intervals
from ktui.pipeline.tables.listings import listed_samples

SAMPLES = (1_000_000, 10_000_000, 100_000_000)
BESIDE_MOST = 10_000_000
"""Most samples for which the others are timed too."""
RUNS = 3


class Found(NamedTuple):
    """What a job found. The samples repeat, so both figures grow with their number."""

    intervals: int
    milliseconds: int
    """The lengths of all intervals together."""


def run() -> None:
    """Print seconds, samples per second and core, growth, and ratios; check that all agree."""
    spark = start(f"local[{os.cpu_count()}]", more={"spark.driver.memory": "8g"})
    per_sample: dict[int, float] = {}
    first: Found | None = None
    for samples in SAMPLES:
        with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
            folder = Path(name) / "samples"
            write(spark, samples, folder)
            check_count("samples", spark.read.parquet(str(folder)).count(), samples)
            jobs: dict[str, Callable[[], Found]] = {"Spark": partial(_spark, spark, folder)}
            jobs |= _others(folder) if samples <= BESIDE_MOST else {}
            found, taken = _in_turn(jobs, RUNS if samples <= BESIDE_MOST else 1)
        first = first or found
        for what, figure, smallest in zip(Found._fields, found, first, strict=True):
            check_count(what, figure, smallest * samples // SAMPLES[0])
        per_sample[samples] = taken["Spark"] / samples
        _report(samples, taken, per_sample)
    spark.stop()


def _spark(spark: Any, folder: Path) -> Found:
    return _found(intervals(listed_samples(spark.read.parquet(str(folder)))).toArrow())


def _others(folder: Path) -> dict[str, Callable[[], Found]]:
    files = f"{folder}/*.parquet"
    return {"duckdb": partial(_duckdb, files), "polars": partial(_polars, files)}


def _duckdb(files: str) -> Found:
    sql = Path(__file__).with_name("states_duckdb.sql").read_text(encoding="utf-8")
    relation = duckdb.sql(sql, params={"samples": files})
    if relation is None:
        raise SystemExit("not measured: DuckDB finds nothing")
    return _found(relation.to_arrow_table())


def _polars(files: str) -> Found:
    return _found(intervals_in_polars(files).to_arrow())


def _found(table: pa.Table) -> Found:
    return Found(table.num_rows, pc.sum(pc.subtract(table["ended_t"], table["began_t"])).as_py())


def _in_turn(jobs: dict[str, Callable[[], Found]], runs: int) -> tuple[Found, dict[str, float]]:
    """Run each once uncounted, then all in turn.

    Returns:
        What all of them found, and the median seconds of each.
    """
    found = {name: job() for name, job in jobs.items()}
    if len(set(found.values())) > 1:
        raise SystemExit(f"not measured: the jobs find different intervals: {found}")
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            taken[name].append(time.perf_counter() - started)
    return found["Spark"], {name: statistics.median(seconds) for name, seconds in taken.items()}


def _report(samples: int, taken: dict[str, float], per_sample: dict[int, float]) -> None:
    seconds, first = taken["Spark"], next(iter(per_sample.values()))
    per_core = samples / seconds / (os.cpu_count() or 1)
    words = [
        f"{samples:>11,} samples: Spark {seconds:.1f} s, {per_core:,.0f} per second and core",
        f"{per_sample[samples] / first:.2f} times the time per sample of the smallest",
    ]
    others = ((name, taken[name]) for name in taken.keys() - {"Spark"})
    words += (f"{name} {s:.1f} s: Spark takes {seconds / s:.2f} times that" for name, s in others)
    if samples > BESIDE_MOST:
        words.append("left out: duckdb and polars; Spark ran once")
    print("; ".join(words))
