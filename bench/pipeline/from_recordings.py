"""The cost of `ktui pipeline run` from recordings of 10,000 to 10,000,000 samples, beside DuckDB.

DuckDB makes the same tables, and all their rows are compared. `KTUI_BENCH_SAMPLES` names other
sizes, as in `KTUI_BENCH_SAMPLES=1e6,1e8`. Linux only.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.checks import check_count
from bench.pipeline.measuring import (
    Taken,
    as_text,
    command_time,
    count_orphans,
    pipeline_time,
    rows_of,
)
from bench.pipeline.recordings import kept
from bench.pipeline.same_rows import TABLES, check_same

SAMPLES = (10_000, 20_000, 100_000, 1_000_000, 10_000_000)
FEW = 160
"""Samples of a run that takes its fixed cost alone: ten in each of 16 sessions."""
MORE = 100
"""One sample more for so many that the lake has."""
INSIGHTS_MOST = 1_000_000
"""Most samples for which a run with insights is timed, too: it replays each session."""
DUCKDB_MOST = 10_000_000
"""Most samples for which DuckDB's tables are made, and compared."""
USUAL, USUAL_WALL_S, USUAL_CPU_S = 20_000, 25, 40
"""The aims for a usual day's recordings, with insights."""
FIRST_CPU_S = 60
"""The aim for the same on a machine that has no archive of Spark's classes yet."""
BESIDE_DUCKDB_AIM, GROWTH_AIM, MORE_AIM = 3.0, 1.2, 0.1
GROWTH_FROM, GROWTH_TO = 1_000_000, 10_000_000
_NO_INSIGHTS = "--no-insights"


class Measured(msgspec.Struct, frozen=True):
    """The times for one size."""

    samples: int
    plain: Taken
    """Of a run into a new lake, without insights."""
    whole: Taken | None
    """Of one with insights; None where it is left out."""
    more: Taken
    """Of a run that adds one per cent to the lake, without insights."""
    beside: Taken | None
    """Of DuckDB; None where it is left out."""


def run() -> None:
    """Print times, ratios and aims for each size, and the growth from size to size."""
    count_orphans()
    found: dict[int, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
        folder = Path(name)
        first = as_text([_first(folder)])
        print(f"{USUAL:,} samples, the very first run: {first} (aim: {FIRST_CPU_S} s of CPU)")
        fixed = _fixed(folder)
        print(f"{FEW} samples, the fixed cost: {as_text([fixed])}, without insights", flush=True)
        for samples in _sizes():
            found[samples] = _measure(samples, folder)
            _report(found[samples], fixed)
    _report_growth(found)


def _sizes() -> tuple[int, ...]:
    named = os.environ.get("KTUI_BENCH_SAMPLES")
    return SAMPLES if not named else tuple(int(float(size)) for size in named.split(","))


def _first(folder: Path) -> Taken:
    """Time a run that keeps Spark's classes, with insights."""
    recordings, _ = kept(USUAL, USUAL // MORE)
    taken = _time_new_lake(recordings, folder, USUAL)
    shutil.rmtree(folder / "lake")
    if not list((folder / "cache").rglob("spark-*")):
        raise SystemExit("not measured: the first run has not kept Spark's classes")
    return taken


def _fixed(folder: Path) -> Taken:
    """Time a run on a few samples."""
    recordings, _ = kept(FEW, 1)
    taken = _time_new_lake(recordings, folder, FEW, _NO_INSIGHTS)
    shutil.rmtree(folder / "lake")
    return taken


def _measure(samples: int, folder: Path) -> Measured:
    first, more = kept(samples, samples // MORE)
    lake, others, cache = folder / "lake", folder / "duckdb", folder / "cache"
    whole: Taken | None = None
    beside: Taken | None = None
    if samples <= INSIGHTS_MOST:
        whole = _time_new_lake(first, folder, samples)
        shutil.rmtree(lake)
    plain = _time_new_lake(first, folder, samples, _NO_INSIGHTS)
    if samples <= DUCKDB_MOST:
        job = [sys.executable, "-m", "bench.pipeline.in_duckdb.job", str(first), str(others)]
        beside = command_time(job)
        check_same(lake, others)
        shutil.rmtree(others)
    added = pipeline_time(more, lake, cache, _NO_INSIGHTS)
    check_count("samples in the lake", rows_of(lake, "samples"), samples + samples // MORE)
    shutil.rmtree(lake)
    return Measured(samples, plain, whole, added, beside)


def _time_new_lake(recordings: Path, folder: Path, samples: int, *options: str) -> Taken:
    taken = pipeline_time(recordings, folder / "lake", folder / "cache", *options)
    check_count("samples in the lake", rows_of(folder / "lake", "samples"), samples)
    for table in TABLES:
        if not rows_of(folder / "lake", table):
            raise SystemExit(f"not measured: the lake has no rows of {table}")
    return taken


def _report(found: Measured, fixed: Taken) -> None:
    plain, more, samples = found.plain, found.more, found.samples
    wall_us, cpu_us = plain.wall * 1e6 / samples, plain.cpu * 1e6 / samples
    over = (more.cpu - fixed.cpu) / max(plain.cpu - fixed.cpu, 0.01)
    words = [f"{samples:>11,} samples: {as_text([plain])} without insights"]
    words.append(f"{wall_us:.1f} and {cpu_us:.1f} us a sample")
    words.append(f"one per cent more: {as_text([more])}")
    words.append(f"over the fixed cost {over:.2f} times the whole's CPU (aim: at most {MORE_AIM})")
    left_out = []
    if found.whole is None:
        left_out.append("insights")
    else:
        aim = f" (aim: {USUAL_WALL_S} and {USUAL_CPU_S} s)" if samples == USUAL else ""
        words.append(f"with insights {as_text([found.whole])}{aim}")
    if found.beside is None:
        left_out.append("DuckDB, and so the comparison of rows")
    else:
        share = plain.cpu / found.beside.cpu
        aim = f" (aim: at most {BESIDE_DUCKDB_AIM:g})" if samples == DUCKDB_MOST else ""
        words.append(
            f"DuckDB, with the same rows in {len(TABLES)} tables, {as_text([found.beside])}: "
            f"ktui takes {share:.2f} times that CPU{aim}"
        )
    if left_out:
        words.append(f"left out: {' and '.join(left_out)}")
    print("; ".join(words), flush=True)


def _report_growth(found: dict[int, Measured]) -> None:
    if not {GROWTH_FROM, GROWTH_TO} <= found.keys():
        print(f"left out: the growth from {GROWTH_FROM:,} to {GROWTH_TO:,} samples")
        return
    small, large = found[GROWTH_FROM].plain, found[GROWTH_TO].plain
    times = GROWTH_TO / GROWTH_FROM
    print(
        f"from {GROWTH_FROM:,} to {GROWTH_TO:,} samples: {large.wall / small.wall / times:.2f} "
        f"times the wall time a sample, {large.cpu / small.cpu / times:.2f} times the CPU "
        f"(aim: at most {GROWTH_AIM})"
    )
