"""Runs of plans on a real cluster, executed by an engine in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Observer
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterWriter
from ktui.execution.engine.engine import Engine
from ktui.execution.journal.commands import Command
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, Owned
from ktui.execution.run.first_events import first_events
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits
from ktui.planning.plan import PartitionTarget, Plan
from support.runs.engine_runs import snapshot_of

OWNER = Owned(pid=1, host="here", user="operator")
Replicas = tuple[int, ...]


class RealRun:
    """A run on a lab, with its journal in a folder.

    Args:
        lab: the lab whose partitions move.
        folder: the folder of the journal.
        targets: the plan.
        limits: the limits in force at the start.
        options: the options of the run.
    """

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        targets: Mapping[TopicPartition, Replicas],
        limits: Limits,
        **options: Any,
    ) -> None:
        self.connection = Connection.to(lab.bootstrap_servers)
        self.path = folder / "journal.db"
        self.plan = Plan(
            tuple(PartitionTarget(t.topic, t.partition, to) for t, to in targets.items())
        )
        self.limits, self.options = limits, RunOptions(**options)
        self.clock = SystemClock()
        self.engine: Engine | None = None
        self.run = Run("run")
        self.through: Callable[[ClusterWriter], ClusterWriter] = lambda writer: writer
        """Wraps the writer that the engine uses."""

    async def start(self) -> None:
        reader = KafkaReader(self.connection)
        try:
            events = first_events(
                self.plan,
                await snapshot_of(reader, self.plan),
                self.limits,
                self.options,
                cluster_id=(await reader.describe_cluster()).cluster_id,
                plan_name="plan.json",
            )
        finally:
            await reader.aclose()
        with Journal.create(self.path, self.clock) as journal:
            journal.append(events)

    async def execute(self) -> Run:
        reader, writer = KafkaReader(self.connection), KafkaWriter(self.connection)
        with Journal.open(self.path, self.clock) as journal:
            self.run = Run("run").fold(journal.entries())
            observer = Observer(reader, self.clock)
            ways = ClusterPorts(reader, self.through(writer))
            self.engine = Engine(self.run, journal, observer, ways, self.clock)
            try:
                await self.engine.execute(OWNER)
            finally:
                await observer.aclose()
                await reader.aclose()
                await writer.aclose()
        return self.run

    async def to_its_end(self) -> Run:
        await self.start()
        return await self.execute()

    def ask(self, command: Command) -> None:
        """Send a command to the live run, like another shell."""
        with Journal.open(self.path, self.clock) as journal:
            journal.ask(command, "another shell")

    @property
    def events(self) -> list[AnyRunEvent]:
        with Journal.open(self.path, self.clock, read_only=True) as journal:
            return [entry.event for entry in journal.entries()]


async def described(connection: Connection, topic: str) -> dict[TopicPartition, PartitionState]:
    """Return the present partitions of a topic."""
    reader = KafkaReader(connection)
    try:
        return dict((await reader.describe_topics({topic}, fresh=True)).partitions)
    finally:
        await reader.aclose()
