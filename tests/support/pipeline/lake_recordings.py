"""Small recordings of moving partitions, and their rows in a lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, run
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import VirtualClock
from support.pipeline.lake_rows import lake_table
from support.simulated.observations import START, a_move, an_observation

MOVING = tuple(TopicPartition("orders", number) for number in range(3))


def looks(count: int, *, from_s: float = 0.0, **more: Any) -> Iterator[Observation]:
    """Yield one observation per second of three partitions, to each of which broker 4 is added."""
    for second in range(count):
        at_s = from_s + second
        ends = {(tp, 4): round(1_000 * at_s) for tp in MOVING}
        ends |= {(tp, 1): 1_000_000 for tp in MOVING}
        moves = [a_move(tp) for tp in MOVING]
        starts = dict.fromkeys(MOVING, 0)
        yield an_observation(moves, at_s, ends=ends, starts=starts, **more)


def record(
    folder: Path, observations: Iterator[Observation], *, close: bool = True, **how: Any
) -> Path:
    """Record observations as one session, and return its folder."""
    recorder = Recorder(folder, VirtualClock(START, leaping=True), program="tests", **how)
    for seen in observations:
        recorder.poll(seen)
    if close:
        recorder.close()
    assert recorder.problem is None
    assert recorder.path is not None
    return recorder.path


def into_lake(spark: SparkSession, lake: Path, *recordings: Path, **more: Any) -> PipelineOutcome:
    """Bring a lake up to date."""
    return run(spark, PipelineRequest(tuple(map(str, recordings)), str(lake), **more))


def rows(lake: Path, table: Table, columns: Sequence[str], **where: Any) -> list[tuple[Any, ...]]:
    """Return some columns of a table's rows, sorted."""
    found = lake_table(lake, table).to_pylist()
    chosen = (row for row in found if all(row[name] == value for name, value in where.items()))
    return sorted((tuple(row[name] for name in columns) for row in chosen), key=repr)
