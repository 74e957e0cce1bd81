"""The time of `ktui pipeline run` on almost no data, with and without kept classes. Linux only."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from bench.checks import check_count
from bench.timing import ratio
from ktui.cluster.broker import Broker
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.recording.recorder import Recorder

RUNS = 5
POLLS = 20
START = datetime(2026, 1, 1, tzinfo=UTC)
MOVING = PartitionState(
    TopicPartition("orders", 0), "id", (4, 1, 2), (1, 2), 1, adding=(4,), removing=(2,)
)
_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: also counts a JVM that outlives its Python process."""


class Taken(msgspec.Struct, frozen=True):
    """The time of a command, in seconds."""

    wall: float
    """Wall time until the end of the command."""
    cpu: float
    """CPU time of all processes it started, including those that outlived the command."""


def run() -> None:
    """Print the time of the first run, then times with and without the classes, and ratios."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
        folder = Path(name)
        recorder = Recorder(folder / "recordings", SystemClock(), program="bench")
        for seen in _seen():
            recorder.poll(seen)
        recorder.close()
        no_folder = folder / "file"
        no_folder.touch()
        _run(folder, no_folder)
        first = _run(folder, folder / "cache")
        kept: list[Taken] = []
        without: list[Taken] = []
        for _ in range(RUNS):
            kept.append(_run(folder, folder / "cache"))
            without.append(_run(folder, no_folder))
        size = sum(file.stat().st_size for file in (folder / "cache").rglob("*.jsa"))
    if not size:
        raise SystemExit("not measured: no run has kept Spark's classes")
    print(
        f"a run of the pipeline on {POLLS} polls: {_as_text(kept)} with Spark's classes kept, "
        f"{_as_text(without)} without; "
        f"{ratio([t.wall for t in kept], [t.wall for t in without]):.2f} times the wall time, "
        f"{ratio([t.cpu for t in kept], [t.cpu for t in without]):.2f} times the CPU time; "
        f"the run that writes them, {size / 1e6:.0f} MB: {_as_text([first])}"
    )


def _seen() -> Iterator[Observation]:
    for second in range(POLLS):
        read_s = float(second)
        yield Observation(
            cluster_id="bench",
            controller=1,
            brokers={id_: Broker(id_, f"broker-{id_}.example", 9092) for id_ in (1, 2, 4)},
            partitions={MOVING.tp: MOVING},
            ends={
                Replica(MOVING.tp, 1): Reading(10**6, read_s),
                Replica(MOVING.tp, 4): Reading(1000 * second, read_s),
            },
            at=START + timedelta(seconds=second),
            monotonic_s=read_s,
            took_s=0.05,
        )


def _run(folder: Path, cache: Path) -> Taken:
    """Run the pipeline into a new lake, and wait for all processes that it has started."""
    lake, state = folder / "lake", folder / "state"
    shutil.rmtree(lake, ignore_errors=True)
    command = [sys.executable, "-m", "ktui", "pipeline", "run", "--recordings"]
    command += [str(folder / "recordings"), "--lake", str(lake), "--state-dir", str(state)]
    before_s, started = _cpu_s(), time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    wall = time.perf_counter() - started
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    taken = Taken(wall, _cpu_s() - before_s)
    tables = json.loads((lake / "ktui-lake.json").read_text(encoding="utf-8"))["tables"]
    check_count("samples in the lake", tables["samples"]["bench"]["rows"], POLLS)
    return taken


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _as_text(taken: list[Taken]) -> str:
    wall, cpu = (statistics.median(s) for s in ([t.wall for t in taken], [t.cpu for t in taken]))
    return f"{wall:.1f} s and {cpu:.1f} s of CPU"
