"""Samples and run events made by hand, for tests of the tables derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import (
    AnyRunEvent,
    Elect,
    Planned,
    PlannedPart,
    Started,
    StateEntered,
    StepBegun,
    StepOver,
    encode,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.pipeline.lake.tables import RUN_EVENTS, SAMPLES

CLUSTER = "cluster"
RUN = "drain-3"
BEGINNING_MS = 1_800_000_000_000
"""Second 0 of every story here, in ms, at the beginning of a minute."""

Figures = Mapping[int, int]
Row = dict[str, Any]


def ms(second: float) -> int:
    return BEGINNING_MS + round(second * 1000)


def second(t: int | None) -> float | None:
    return None if t is None else (t - BEGINNING_MS) / 1000


def moment(t: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=t)


def sample(  # noqa: PLR0913 - the columns of a sample
    at: float,
    *,
    replicas: Sequence[int] = (4, 1, 2, 3),
    isr: Sequence[int] = (1, 2, 3),
    adding: Sequence[int] = (4,),
    removing: Sequence[int] = (1,),
    ends: Figures | None = None,
    sizes: Figures | None = None,
    throttles: Figures | None = None,
    read: float | None = None,
    **more: Any,
) -> Row:
    """Return a sample at a second; by default 1 leads the partition and 4 is being added."""
    read_t = ms(at if read is None else read)
    row: Row = {
        "cluster_id": CLUSTER,
        "session": "session",
        "seq": round(at * 10),
        "at": moment(ms(at)),
        "t": ms(at),
        "took_ms": 20,
        "partition": 0,
        "topic_id": None,
        "replicas": list(replicas),
        "isr": list(isr),
        "leader": 1,
        "leader_epoch": 1,
        "adding": list(adding),
        "removing": list(removing),
        "offline": [],
        "elr": None,
        "described": True,
        "ends": [{"broker": b, "end": n, "read_t": read_t} for b, n in (ends or {}).items()],
        "log_start": None,
        "log_start_read_t": None,
        "sizes": [{"broker": b, "bytes": n, "read_t": read_t} for b, n in (sizes or {}).items()],
        "rates": [
            {"broker": b, "follower": n, "leader": None} for b, n in (throttles or {}).items()
        ],
        "down": [],
        "shadowed": False,
        "ms": ms(at),
        "segment": "0123456789abcdef",
        "line": 1,
        **more,
    }
    return row | {"date": row["at"].date()}


def resting(at: float, replicas: Sequence[int] = (4, 2, 3), **more: Any) -> Row:
    """Return a sample of a partition that is not being reassigned."""
    return sample(at, replicas=replicas, isr=replicas, adding=(), removing=(), **more)


class ScriptedRun:
    """The stories of one module. Each has its own topic, so that one job computes them all."""

    def __init__(self) -> None:
        self._samples: list[Row] = []
        self._events: list[Row] = []
        self._topics = 0

    def topic(self) -> str:
        """Return the name of a new topic."""
        self._topics += 1
        return f"story-{self._topics}"

    def seen(self, *samples: Row, topic: str | None = None) -> str:
        """Add samples of a topic's partitions, and return the topic."""
        topic = topic or self.topic()
        self._samples += ({"topic": topic} | row for row in samples)
        return topic

    def ran(self, *events: tuple[float, AnyRunEvent], run_id: str, run: str = RUN) -> str:
        """Add a run's events, each with its second, and return the run's id."""
        for entry, (at, event) in enumerate(events, start=1):
            body = encode(event).decode()
            self.recorded(at, entry, body, run_id=run_id, run=run)
        return run_id

    def recorded(self, at: float, entry: int, body: str, *, run_id: str, run: str = RUN) -> None:
        """Add one event of a run, as the journal has it."""
        when = moment(ms(at))
        self._events.append(
            {
                "cluster_id": CLUSTER,
                "date": when.date(),
                "run": run,
                "run_id": run_id,
                "entry": entry,
                "at": when,
                "t": ms(at),
                "kind": msgspec.json.decode(body)["event"],
                "event": body,
                "session": "session",
            }
        )

    def samples(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(_tuples(self._samples, SAMPLES.schema.names), SAMPLES.schema)

    def run_events(self, spark: SparkSession) -> DataFrame:
        rows = _tuples(self._events, RUN_EVENTS.schema.names)
        return spark.createDataFrame(rows, RUN_EVENTS.schema)


def _tuples(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


LIMITS = Limits(replicas=1, partitions=2)


def started(partitions: int = 1, plan: str = "plan.json") -> Started:
    return Started(
        cluster_id=CLUSTER,
        plan=plan,
        plan_sha256="0" * 64,
        partitions=partitions,
        limits=LIMITS,
        options=RunOptions(),
        version="1.0",
    )


def planned(*topics: str, topic_id: str | None = None) -> PlannedPart:
    """Plan partition 0 of some topics: from 1, 2, 3 to 4, 2, 3."""
    return PlannedPart(
        partitions=tuple(
            Planned(topic, 0, topic_id, target=(4, 2, 3), original=(1, 2, 3), leader=1)
            for topic in topics
        )
    )


def step(topic: str, batch: int = 1, *, alters: bool = True, elect: int | None = None) -> StepBegun:
    return StepBegun(
        topic=topic,
        partition=0,
        batch=batch,
        replicas=(4, 2, 3),
        adding=(4,),
        removing=(1,),
        elect=elect,
        before=(1, 2, 3),
        leader=1,
        alters=alters,
    )


def elect(topic: str) -> Elect:
    return Elect(topic=topic, partition=0, leader=4)


def over(topic: str) -> StepOver:
    return StepOver(topic=topic, partition=0, replicas=(4, 2, 3), leader=4)


def now(topic: str, state: State = State.DONE) -> StateEntered:
    return StateEntered(topic=topic, partition=0, state=state)


def tp(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)
