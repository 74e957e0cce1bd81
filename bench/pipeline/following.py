"""`python -m bench pipeline-follow`: whether a fold of a follower costs more as its lake grows.

One session goes on, round by round, and each round is read into the same lake. Every partition is
moved over and over, so rounds end in the middle of moves. `KTUI_BENCH_FOLLOW` names other sizes:
partitions, rounds, and seconds of a round, as in `KTUI_BENCH_FOLLOW=1000,60,60`. Linux only.
"""

from __future__ import annotations

import gzip
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from bench.checks import check_count
from bench.pipeline.measuring import rows_of
from ktui.cluster.broker import Broker
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.run.run import PipelineRequest
from ktui.pipeline.run.run import run as run_pipeline
from ktui.pipeline.spark import session
from ktui.recording import lines
from ktui.recording.encoding import Encoder
from ktui.recording.lines import SCHEMA_VERSION, Head
from ktui.recording.milliseconds import to_ms, wall_ms

USUAL = (100, 20, 60)
"""Partitions, rounds, and the seconds of a round."""
WARMING = 2
"""The first folds compile Spark's own code, and do not count."""
AIM = 1.2
START = datetime(2026, 1, 1, tzinfo=UTC)
_MOVE_S = 150
"""The seconds of a move."""
_BYTES = 1_000_000_000
_MESSAGES = 1_000_000


def run() -> None:
    """Print the CPU time of a fold in each tenth of the rounds, and of the steps that grow."""
    partitions, rounds, seconds = _sizes()
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
        folder = Path(name)
        spark = session.start("local[2]", log=folder / "spark.log")
        try:
            request = PipelineRequest(
                (str(folder / "recorded"),), str(folder / "lake"), asked=DerivedOptions()
            )
            folds, samples = [], 0
            for number in range(WARMING + rounds):
                samples += _record(folder / "recorded", partitions, number, seconds)
                steps = _Steps()
                run_pipeline(spark, request, steps.begin)
                folds.append(steps.end())
                taken_s = sum(folds[-1].values())
                print(f"fold {number + 1}: {taken_s:.1f} s of CPU, {samples:,} samples", flush=True)
        finally:
            spark.stop()
        check_count("samples in the lake", rows_of(folder / "lake", "samples"), samples)
    _report(folds[WARMING:], samples, partitions)


def _sizes() -> tuple[int, int, int]:
    named = os.environ.get("KTUI_BENCH_FOLLOW")
    if named is None:
        return USUAL
    partitions, rounds, seconds = map(int, named.split(","))
    return partitions, rounds, seconds


class _Steps:
    """The CPU time of each step of a run, of this process and all below it."""

    def __init__(self) -> None:
        self._taken: dict[str, float] = defaultdict(float)
        self._step, self._since = "start", _cpu_s()

    def begin(self, step: str) -> None:
        now = _cpu_s()
        self._taken[self._step] += now - self._since
        self._step, self._since = step.partition(": ")[2].partition(",")[0].split(" ")[0], now

    def end(self) -> dict[str, float]:
        self.begin("")
        return dict(self._taken)


def _cpu_s() -> float:
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def _report(folds: list[dict[str, float]], samples: int, partitions: int) -> None:
    whole = [sum(fold.values()) for fold in folds]
    tenths = [_tenth(whole, n) for n in range(10)]
    print(
        f"{len(folds)} folds, {samples:,} samples of {partitions} moving partitions; seconds of "
        f"CPU per fold by tenth: {', '.join(f'{each:.1f}' for each in tenths)}; the last is "
        f"{tenths[-1] / tenths[0]:.2f} times the first (aim: {AIM})"
    )
    for step in sorted({name for fold in folds for name in fold}):
        of_step = [fold.get(step, 0.0) for fold in folds]
        print(f"  {step}: {_tenth(of_step, 0):.2f} s in the first, {_tenth(of_step, 9):.2f} s last")


def _tenth(figures: list[float], number: int) -> float:
    start = number * len(figures) // 10
    return statistics.mean(figures[start : max(start + 1, (number + 1) * len(figures) // 10)])


def _record(folder: Path, partitions: int, number: int, seconds: int) -> int:
    """Write the next segment of the session, and return its samples."""
    seq = number * (seconds + 1)
    first = START + timedelta(seconds=number * seconds)
    head = Head(
        seq=seq,
        at=wall_ms(first),
        ms=to_ms(float(number * seconds)),
        schema_version=SCHEMA_VERSION,
        session="follow",
        segment=number,
        cluster_id="bench",
    )
    encoder, written, samples = Encoder(), [lines.encode(head)], 0
    for second in range(seconds):
        seen = _observation(partitions, number * seconds + second)
        samples += len(seen.partitions)
        written.append(lines.encode(encoder.poll(seen, seq=seq + 1 + second)))
    path = folder / "bench" / "follow" / f"{number:06}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(b"".join(written), compresslevel=1, mtime=0))
    return samples


def _observation(partitions: int, second: int) -> Observation:
    states = {state.tp: (state, done) for state, done in _moving(partitions, second)}
    ends: dict[Replica, Reading] = {}
    sizes: dict[Replica, Reading] = {}
    for tp, (state, done) in states.items():
        for broker in state.replicas:
            share = done if broker in state.adding else 1.0
            ends[Replica(tp, broker)] = Reading(int(share * _MESSAGES), float(second))
            sizes[Replica(tp, broker)] = Reading(int(share * _BYTES), float(second))
    return Observation(
        cluster_id="bench",
        controller=1,
        brokers={id_: Broker(id_, f"broker-{id_}.example", 9092) for id_ in range(1, 7)},
        partitions={tp: state for tp, (state, _) in states.items()},
        ends=ends,
        starts={tp: Reading(0, float(second)) for tp in states},
        sizes=sizes,
        at=START + timedelta(seconds=second),
        monotonic_s=float(second),
        took_s=0.05,
    )


def _moving(partitions: int, second: int) -> Iterator[tuple[PartitionState, float]]:
    """Yield each partition, and the share done: one replica goes to and fro between two brokers."""
    for number in range(partitions):
        move, passed = divmod(second + number, _MOVE_S)
        onto, off = (4, 2) if move % 2 else (2, 4)
        tp = TopicPartition(f"topic-{number % 10}", number // 10)
        done = min(1.0, passed / (_MOVE_S - 10))
        if passed >= _MOVE_S - 5:
            yield PartitionState(tp, tp.topic, (1, onto), (1, onto), 1), 1.0
        else:
            isr = (1, off, onto) if done == 1.0 else (1, off)
            replicas = (1, onto, off)
            yield (
                PartitionState(tp, tp.topic, replicas, isr, 1, adding=(onto,), removing=(off,)),
                done,
            )
