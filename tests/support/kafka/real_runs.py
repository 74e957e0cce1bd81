"""Runs of plans on a real cluster by an engine in this process, its throttles, and the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AdminClient,
    ConfigResource,
)

from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Observer
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterWriter, ConfigChange
from ktui.execution.engine.engine import Engine
from ktui.execution.journal.commands import Command
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, CancelAsked, Owned, StepBegun
from ktui.execution.run.options import RunOptions
from ktui.execution.run.plans import first_events
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.transport.pool import redirect_client_log
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import Limits
from ktui.planning.plan import PartitionTarget, Plan
from support.contract.world import RealWorld, change
from support.rule_book import against_cancel
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


MESSAGE_BYTES = 8192  # bytes of one message that `ktui.kafka.workload.fill` writes
_LIMIT_S = 20.0
_SETTLED_S = 20.0
_UNSET = (None, -1)
_KINDS = ConfigResource.Type

Settings = dict[str, dict[str, tuple[str | None, int]]]
"""By topic or broker, and by name: the value, and Kafka's number for its source."""


def all_settings(connection: Connection) -> Settings:
    """Return every setting of every topic and broker, read by a client other than ktui's."""
    admin = AdminClient({**connection.for_confluent()}, logger=redirect_client_log("librdkafka"))
    seen = admin.list_topics(timeout=_LIMIT_S)
    asked = [ConfigResource(_KINDS.TOPIC, name) for name in seen.topics]
    answers = admin.describe_configs(asked) if asked else {}
    for broker in seen.brokers:
        answers |= admin.describe_configs([ConfigResource(_KINDS.BROKER, str(broker))])
    return {
        f"{resource.restype.name} {resource.name}": _values(answer.result(_LIMIT_S))
        for resource, answer in answers.items()
    }


def _values(entries: Mapping[str, Any]) -> dict[str, tuple[str | None, int]]:
    return {name: (entry.value, int(entry.source)) for name, entry in entries.items()}


def changed(
    connection: Connection, before: Settings, expected: Mapping[str, str | None] | None = None
) -> dict[str, str | None]:
    """Return the present value of each setting that differs from before.

    Brokers learn of a change a moment after it was answered, so wait for the expected changes.
    """
    found: dict[str, str | None] = {}

    def as_expected() -> bool:
        found.clear()
        found.update(_otherwise(before, all_settings(connection)))
        return found == (expected or {})

    wait_for(as_expected, seconds=_SETTLED_S)
    return found


def _otherwise(before: Settings, now: Settings) -> dict[str, str | None]:
    """Skip topics made meanwhile: Kafka makes its own one when a cluster is first claimed."""
    return {
        f"{resource} {name}": has[0]
        for resource, had in before.items()
        for name in had.keys() | now.get(resource, {}).keys()
        if (has := now.get(resource, {}).get(name, _UNSET)) != had.get(name, _UNSET)
    }


async def others_set(world: RealWorld, *changes: ConfigChange) -> Settings:
    """Set something that is not the run's; return all settings once the brokers report it."""
    unset = all_settings(world.connection)
    await change(world, *changes)
    expected = {
        f"{one.resource.scope.upper()} {one.resource.name} {one.key}": one.value for one in changes
    }
    assert changed(world.connection, unset, expected) == expected
    return all_settings(world.connection)


class Copies:
    """Measures how many bytes of some partitions each broker has copied."""

    def __init__(self, reader: KafkaReader, tps: Collection[TopicPartition]) -> None:
        self._reader = reader
        self._tps = tps
        self._began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s

    async def onto(self, broker: int) -> int:
        """Return the bytes that the broker holds, by its own log ends; 0 if it cannot be asked."""
        try:
            answer = await self._reader.log_offsets(broker, ends=self._tps)
        except ClusterError:
            return 0
        return sum(answer.ends.values()) * MESSAGE_BYTES


def steps_against_cancels(events: Iterable[AnyRunEvent]) -> list[str]:
    """List the steps that moved a partition forward after it was cancelled."""
    kinds: dict[TopicPartition, CancelKind] = {}
    originals: dict[TopicPartition, Replicas] = {}
    wrong = []
    for event in events:
        if isinstance(event, CancelAsked):
            kinds |= dict.fromkeys(event.partitions, event.kind)
        elif isinstance(event, StepBegun):
            original = originals.setdefault(event.tp, event.before)
            kind = kinds.get(event.tp)
            if why := against_cancel(kind, event.before, event.replicas, original):
                wrong.append(f"{event.tp}: {why}")
    return wrong


def otherwise_than_expected(
    tracks: Mapping[TopicPartition, Track],
    found: Mapping[TopicPartition, PartitionState],
    listed: Collection[TopicPartition],
    *,
    leaders: bool = True,
) -> list[str]:
    """List the partitions that differ from the run's journal, or that still move.

    Args:
        tracks: the partitions as the run has them.
        found: the partitions as the cluster has them.
        listed: the partitions that are being reassigned.
        leaders: whether leaders must agree, too: only if no broker failed after the run was done.
    """
    wrong = []
    for tp, track in tracks.items():
        has = (found[tp].replicas, found[tp].leader)
        wanted = {
            State.DONE: (track.planned.target, track.planned.target[0]),
            State.ROLLED_BACK: (track.original, track.led),
            State.STOPPED: (track.replicas if track.begun else track.original, has[1]),
        }.get(track.state)
        if not leaders and wanted is not None:
            wanted = (wanted[0], has[1])
        last_is_back = track.cancel is CancelKind.ROLLBACK and track.begun
        if tp in listed or has != wanted or (last_is_back and track.state is not State.ROLLED_BACK):
            wrong.append(f"{tp}: {has}, {track.state} ({track.reason}), asked {track.cancel}")
    return wrong
