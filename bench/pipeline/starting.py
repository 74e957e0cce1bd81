"""The time of `ktui pipeline run` on almost no data, with and without kept classes. Linux only."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.checks import check_count
from bench.pipeline.measuring import Taken, as_text, count_orphans, pipeline_time, rows_of
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


def run() -> None:
    """Print the time of the first run, then times with and without the classes, and ratios."""
    count_orphans()
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
        f"a run of the pipeline on {POLLS} polls: {as_text(kept)} with Spark's classes kept, "
        f"{as_text(without)} without; "
        f"{ratio([t.wall for t in kept], [t.wall for t in without]):.2f} times the wall time, "
        f"{ratio([t.cpu for t in kept], [t.cpu for t in without]):.2f} times the CPU time; "
        f"the run that writes them, {size / 1e6:.0f} MB: {as_text([first])}"
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
    """Run the pipeline into a new lake."""
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    taken = pipeline_time(folder / "recordings", lake, cache)
    check_count("samples in the lake", rows_of(lake, "samples"), POLLS)
    return taken
