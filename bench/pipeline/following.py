"""`python -m bench pipeline-follow`: whether a fold of a follower costs more as its lake grows.

One session goes on, round by round, and each round is read into the same lake. Every partition is
moved over and over, and one run follows another, so rounds end in the middle of moves and runs.
Folds that write many old samples again, to keep the folders few, cost more than others. So what a
sample costs that is written again is printed, too, and the growth without it.
`KTUI_BENCH_FOLLOW` names other sizes: partitions, rounds, seconds of a round, and samples that the
lake has before the first round, as in `KTUI_BENCH_FOLLOW=1000,60,60,1000000`. Linux only.
"""

from __future__ import annotations

import gzip
import itertools
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from bench.checks import check_count
from bench.pipeline.measuring import rows_of
from bench.pipeline.same_rows import TABLES
from bench.pipeline.session import SessionSpec, Story, run_line
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.execution.run.events import AnyRunEvent
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.run.run import PipelineRequest
from ktui.pipeline.run.run import run as run_pipeline
from ktui.pipeline.spark import session
from ktui.pipeline.sql import DuckLake
from ktui.recording import segments
from ktui.recording.codec import Encoder
from ktui.recording.segments import SCHEMA_VERSION, Head, to_ms, wall_ms
from ktui.simulated.clock import VirtualClock

USUAL = (100, 20, 60, 0)
"""Partitions, rounds, the seconds of a round, and the samples before the first one."""
WARMING = 2
"""The first folds compile Spark's own code, and do not count."""
AIM = 1.2
START = datetime(2026, 1, 1, tzinfo=UTC)
_WRITES_AGAIN = "samples"
"""The step that writes new samples, and many of the old ones again now and then."""
_MOVE_S = 150
"""The seconds of a move by others."""
_OF_A_RUN, _AT_ONCE = 375, 4
"""The samples that make a run of four moves, all in flight at once."""
_LONGEST_S = 900
"""The longest segment, as of the recorder."""
_BYTES = 1_000_000_000
_MESSAGES = 1_000_000


def run() -> None:
    """Print the CPU time of a fold in each tenth of the rounds, and of the steps that grow."""
    partitions, rounds, seconds, before = _sizes()
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
        folder = Path(name)
        spark = session.start("local[2]", log=folder / "spark.log")
        recorded, lake = _Session(folder / "recorded", partitions), folder / "lake"
        request = PipelineRequest((str(folder / "recorded"),), str(lake), asked=DerivedOptions())
        folds: list[_Fold] = []
        try:
            while recorded.samples < before:
                recorded.record(_LONGEST_S)
            if before:
                run_pipeline(spark, request)
                print(f"{recorded.samples:,} samples before the first fold", flush=True)
            for number in range(WARMING + rounds):
                recorded.record(seconds)
                steps = _Steps()
                outcome = run_pipeline(spark, request, steps.begin)
                folds.append(_Fold(steps.end(), _written(outcome.manifest)))
                print(
                    f"fold {number + 1}: {folds[-1].taken_s:.1f} s of CPU, {recorded.samples:,} "
                    f"samples, of which {folds[-1].written:,} were written in it",
                    flush=True,
                )
        finally:
            spark.stop()
        _check(lake, recorded.samples)
    _report(folds[WARMING:], recorded.samples, partitions)


def _sizes() -> tuple[int, int, int, int]:
    named = os.environ.get("KTUI_BENCH_FOLLOW")
    if named is None:
        return USUAL
    partitions, rounds, seconds, *before = map(int, named.split(","))
    return partitions, rounds, seconds, sum(before)


def _check(lake: Path, samples: int) -> None:
    """Check that nothing is missing, and that no table that a version makes is empty."""
    check_count("samples in the lake", rows_of(lake, "samples"), samples)
    for table in (*TABLES, "what_if", "insights"):
        if not rows_of(lake, table):
            raise SystemExit(f"not measured: the lake has no rows of {table}")
    if not DuckLake.open(str(lake)).rows("FROM forecasts WHERE scope = 'run' LIMIT 1"):
        raise SystemExit("not measured: the lake has no forecasts of runs")


class _Fold(NamedTuple):
    """What a fold took, and wrote."""

    steps: dict[str, float]
    """The CPU time of each step, in seconds."""
    written: int
    """The new samples, and those that were written again."""

    @property
    def taken_s(self) -> float:
        return sum(self.steps.values())

    @property
    def others_s(self) -> float:
        """What all took but the step that writes samples."""
        return self.taken_s - self.steps[_WRITES_AGAIN]


def _written(manifest: Manifest) -> int:
    """Return the rows of the newest version of the table of samples."""
    files = [file for part in manifest.tables["samples"].values() for file in part.files]
    newest = max(file.version for file in files)
    return sum(file.rows for file in files if file.version == newest)


class _Steps:
    """The CPU time of each step of a run, of this process and all below it."""

    def __init__(self) -> None:
        self._taken: dict[str, float] = defaultdict(float)
        self._step, self._since = "start", _cpu_s()

    def begin(self, step: str) -> None:
        now = _cpu_s()
        self._taken[self._step] += now - self._since
        self._step, self._since = step.rpartition(": ")[2].partition(",")[0].split(" ")[0], now

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


def _report(folds: list[_Fold], samples: int, partitions: int) -> None:
    tenths = _tenths([fold.taken_s for fold in folds])
    print(
        f"{len(folds)} folds, {samples:,} samples of {partitions} moving partitions; seconds of "
        f"CPU per fold by tenth: {', '.join(f'{each:.1f}' for each in tenths)}; the last is "
        f"{tenths[-1] / tenths[0]:.2f} times the first (aim: {AIM})"
    )
    for step in sorted({name for fold in folds for name in fold.steps}):
        of_step = _tenths([fold.steps.get(step, 0.0) for fold in folds])
        print(f"  {step}: {of_step[0]:.2f} s in the first, {of_step[-1]:.2f} s last")
    written = [fold.written for fold in folds]
    if min(written) == max(written):
        print(
            "not measured: what writing old samples again costs, for no fold did more than others"
        )
        return
    each_s, fixed_s = statistics.linear_regression(
        written, [fold.steps[_WRITES_AGAIN] for fold in folds]
    )
    others = _tenths([fold.others_s for fold in folds])
    print(
        f"{min(written):,} to {max(written):,} samples were written in a fold, new ones and old "
        f"ones again: {fixed_s:.1f} s of CPU, and {each_s * 1e6:.1f} s for a million of them; all "
        f"else took {others[-1] / others[0]:.2f} times as much in the last tenth"
    )


def _tenths(figures: list[float]) -> list[float]:
    return [_tenth(figures, number) for number in range(10)]


def _tenth(figures: list[float], number: int) -> float:
    start = number * len(figures) // 10
    return statistics.mean(figures[start : max(start + 1, (number + 1) * len(figures) // 10)])


class _Session:
    """A session that goes on from segment to segment.

    Args:
        folder: gets the segments.
        partitions: so many are moved by others, over and over, besides those of runs.
    """

    def __init__(self, folder: Path, partitions: int) -> None:
        self._folder, self._partitions = folder / "bench" / "follow", partitions
        self._folder.mkdir(parents=True)
        self._clock = VirtualClock(START)
        self._seq, self._segments = itertools.count(), itertools.count()
        self.samples = 0
        """Those of all segments so far."""
        self._events = self._begin_run()

    def record(self, seconds: int) -> None:
        """Write the next segment."""
        segment, encoder = next(self._segments), Encoder()
        written = [segments.encode(self._head(segment))]
        for _ in range(seconds):
            for event in self._events:
                line = run_line(event, self._spec, next(self._entries), self._clock)
                written.append(segments.encode(msgspec.structs.replace(line, seq=next(self._seq))))
            seen = self._observation()
            self.samples += len(seen.partitions)
            written.append(segments.encode(encoder.poll(seen, seq=next(self._seq))))
            self._clock.pass_time(1)
            over = self._story.is_run_over
            self._events = self._begin_run() if over else self._story.pass_second()
        content = gzip.compress(b"".join(written), compresslevel=1, mtime=0)
        (self._folder / f"{segment:06}.jsonl.gz").write_bytes(content)

    def _begin_run(self) -> Iterator[AnyRunEvent]:
        began = self._clock.now()
        self._spec = SessionSpec(
            "bench", f"run at {began}", "follow", began, _OF_A_RUN, _AT_ONCE, by_run=True
        )
        self._story, self._entries = Story(self._spec, self._clock), itertools.count(1)
        return self._story.begin()

    def _head(self, segment: int) -> Head:
        return Head(
            seq=next(self._seq),
            at=wall_ms(self._clock.now()),
            ms=to_ms(self._clock.monotonic()),
            schema_version=SCHEMA_VERSION,
            session="follow",
            segment=segment,
            cluster_id="bench",
        )

    def _observation(self) -> Observation:
        """Return what the run's story shows, and the moves of others."""
        now_s = self._clock.monotonic()
        ends: dict[Replica, Reading] = {}
        sizes: dict[Replica, Reading] = {}
        states: dict[TopicPartition, PartitionState] = {}
        for state, done in _moving(self._partitions, round(now_s)):
            states[state.tp] = state
            for broker in state.replicas:
                share = done if broker in state.adding else 1.0
                ends[Replica(state.tp, broker)] = Reading(int(share * _MESSAGES), now_s)
                sizes[Replica(state.tp, broker)] = Reading(int(share * _BYTES), now_s)
        seen = self._story.poll(most=_OF_A_RUN)
        return msgspec.structs.replace(
            seen,
            partitions={**seen.partitions, **states},
            ends={**seen.ends, **ends},
            starts={**seen.starts, **dict.fromkeys(states, Reading(0, now_s))},
            sizes={**seen.sizes, **sizes},
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
