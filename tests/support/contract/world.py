"""The interface of a contract test to a cluster, the actions on it, and both kinds of cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from confluent_kafka import ShareConsumer

from ktui.cluster.broker import GROUPS_TOPIC, CoordinatorKind
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.ownership import GroupMembership
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.kafka import workload
from ktui.kafka.claim import KafkaGroups
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests.metadata import PAGE, page_request
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose
from ktui.kafka.writer import KafkaWriter
from ktui.lab.control import break_dir
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec

T = TypeVar("T")

RATE = "follower.replication.throttled.rate"
THROTTLED = "follower.replication.throttled.replicas"
LIMIT_S = 240.0
"""The longest wait for what comes in a moment on an idle machine: a busy one may take longer."""


class World(Protocol):
    """A cluster with five live brokers, 1 to 5, and both of its ports."""

    @property
    def clock(self) -> Clock:
        """The cluster's clock."""
        ...

    @property
    def reader(self) -> ClusterReader:
        """The reading port."""
        ...

    @property
    def writer(self) -> ClusterWriter:
        """The writing port."""
        ...

    def memberships(self) -> GroupMembership:
        """Return a new port to the consumer groups, which the caller closes."""
        ...

    async def create_topic(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        """Create a topic with the replicas of each partition, and wait until all brokers know."""
        ...

    async def make_topic(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        """Create a topic, which some brokers may not know yet."""
        ...

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, which brokers may not know yet."""
        ...

    async def append(self, tp: TopicPartition, messages: int, size: int) -> None:
        """Write messages of `size` random bytes."""
        ...

    async def use_coordinator(self, kind: CoordinatorKind, name: str) -> None:
        """Let a client use a group or a transactional id of this name.

        A share group reads the topic of the same name.
        """
        ...

    async def fail_log_dir(self, broker: int, path: str) -> None:
        """Let a log dir fail for good, as soon as its broker uses it."""
        ...


async def until(
    condition: Callable[[], Awaitable[T | None]],
    *,
    limit_s: float = LIMIT_S,
    clock: Clock | None = None,
) -> T:
    """Wait, by the cluster's clock, until the condition returns something true, and return that."""
    clock = clock or SystemClock()
    end = clock.monotonic() + limit_s
    while True:
        found = await condition()
        if found:
            return found
        assert clock.monotonic() < end, f"waited {limit_s} s in vain; last seen: {found!r}"
        await clock.sleep(0.05)


def setting(
    scope: ConfigScope, name: str, key: str, op: ConfigOp, value: str | None = None
) -> ConfigChange:
    return ConfigChange(ConfigResource(scope, name), key, op, value)


async def change(world: World, *changes: ConfigChange) -> None:
    """Change settings, and check that each change was accepted.

    A change whose answer was lost is sent again: brokers make none twice.
    """

    async def all_answered() -> bool:
        results.update(await world.writer.alter_configs(changes))
        return all(result.verdict is not Verdict.UNKNOWN for result in results.values())

    results: dict[ConfigResource, WriteResult] = {}
    await until(all_answered, clock=world.clock)
    assert all(r.verdict is Verdict.ACCEPTED for r in results.values()), results


async def hold_back(world: World, tp: TopicPartition, broker: int) -> None:
    """Let one broker copy a partition so slowly that its move stays in flight."""
    await change(
        world,
        setting(ConfigScope.BROKER, str(broker), RATE, ConfigOp.SET, "1000"),
        setting(
            ConfigScope.TOPIC, tp.topic, THROTTLED, ConfigOp.APPEND, f"{tp.partition}:{broker}"
        ),
    )


async def let_go(world: World, tp: TopicPartition) -> None:
    """Undo what `hold_back` did to the topic."""
    await change(world, setting(ConfigScope.TOPIC, tp.topic, THROTTLED, ConfigOp.DELETE))


async def alter(
    world: World, tp: TopicPartition, replicas: tuple[int, ...] | None, *, factor: bool = False
) -> WriteResult:
    """Alter one partition; `factor` allows its replication factor to change."""
    results = await world.writer.alter_reassignments(
        {tp: replicas}, allow_replication_factor_change=factor
    )
    return results[tp]


async def listed(world: World, tp: TopicPartition) -> Reassignment | None:
    return (await world.reader.list_reassignments()).get(tp)


async def state(world: World, tp: TopicPartition) -> PartitionState:
    return (await world.reader.describe_topics([tp.topic])).partitions[tp]


async def settled(world: World, tp: TopicPartition, replicas: tuple[int, ...]) -> PartitionState:
    """Wait until the partition no longer moves and its replicas are these, in this order."""

    async def there() -> PartitionState | None:
        if await listed(world, tp) is not None:
            return None
        now = await state(world, tp)
        return now if now.replicas == replicas else None

    return await until(there, clock=world.clock)


SIMULATED = VERSIONS[-1]  # the release that is simulated by default
RACKS = "abc"
MESSAGE_BYTES = 1_000


class SimulatedWorld:
    """Reader and writer on a separate cluster, in virtual time."""

    def __init__(self, version: str = SIMULATED, log_dirs: int = 1) -> None:
        brokers = tuple(BrokerSpec(id=b, rack=RACKS[b % 3], log_dirs=log_dirs) for b in range(1, 6))
        self.clock = VirtualClock(leaping=True)
        spec = ClusterSpec(brokers=brokers, version=version, auto_leader_rebalance=False)
        self.cluster = SimulatedCluster(spec, self.clock)
        self.reader = self.cluster.reader()
        self.writer = self.cluster.writer()

    def memberships(self) -> GroupMembership:
        return self.cluster.memberships()

    async def create_topic(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        await self.make_topic(name, partitions)
        await self.clock.sleep(1.0)

    async def make_topic(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        replicas = tuple(tuple(brokers) for brokers in partitions)
        topic = TopicSpec(name=name, replicas=replicas, message_bytes=MESSAGE_BYTES)
        self.cluster.do(layout.CreateTopic(topic))

    async def delete_topic(self, name: str) -> None:
        self.cluster.do(layout.DeleteTopic(name))

    async def append(self, tp: TopicPartition, messages: int, size: int) -> None:
        assert size == MESSAGE_BYTES, f"a simulated topic's messages have {MESSAGE_BYTES} bytes"
        self.cluster.do(layout.Append(tp, messages))
        await self.clock.sleep(1.0)

    async def use_coordinator(self, kind: CoordinatorKind, name: str) -> None:
        share_group = kind is CoordinatorKind.SHARE_GROUP
        for topic in (kind.topic, *([GROUPS_TOPIC] if share_group else [])):
            if topic not in self.cluster.controller.topics:
                await self.create_topic(topic, [[1, 2], [2, 3], [3, 4]])
        if kind is CoordinatorKind.TRANSACTION:
            self.cluster.transactional_ids.add(name)
        elif share_group:
            self.cluster.share_groups[name] = (name,)
        else:
            groups = self.memberships()
            await groups.join(name, b"", 60.0)
            await groups.aclose()

    async def fail_log_dir(self, broker: int, path: str) -> None:
        self.cluster.do(layout.FailLogDir(broker, path))

    async def aclose(self) -> None:
        await self.reader.aclose()
        await self.writer.aclose()


_LOOKING = Purpose("looking whether a broker knows a new topic")


def _read_once(consumer: ShareConsumer) -> None:
    consumer.poll(5.0)
    consumer.close()


class RealWorld:
    """Reader and writer on a real cluster; `aclose` removes the topics and rates of a test."""

    def __init__(self, connection: Connection, *, timeout_s: float = 20.0) -> None:
        self.connection = connection
        self.clock = SystemClock()
        self.reader = KafkaReader(connection, timeout_s=timeout_s)
        self.writer = KafkaWriter(connection, timeout_s=timeout_s)
        self._wire = Wire(connection, timeout_s=timeout_s)
        self._topics: list[str] = []

    def memberships(self) -> GroupMembership:
        return KafkaGroups(self.connection)

    async def create_topic(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        await self.make_topic(name, partitions)
        for broker in await self._wire.broker_ids():
            await until(partial(self._knows, broker, name, min(len(partitions), PAGE)))

    async def _knows(self, broker: int, name: str, partitions: int) -> bool:
        request = partial(page_request, [name], None)
        answer = await self._wire.ask(_LOOKING, request, broker=broker)
        partitions_there = answer.topics[0].partitions
        return len(partitions_there) == partitions and all(
            p.leader_id >= 0 for p in partitions_there
        )

    async def make_topic(
        self,
        name: str,
        partitions: Sequence[Sequence[int]],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._topics.append(name)
        await asyncio.to_thread(
            workload.create_topic, self.connection, name, partitions, settings=settings
        )

    async def delete_topic(self, name: str) -> None:
        self._topics.remove(name)
        await asyncio.to_thread(workload.delete_topics, self.connection, [name])

    async def append(self, tp: TopicPartition, messages: int, size: int) -> None:
        written = await asyncio.to_thread(
            workload.fill,
            self.connection,
            tp.topic,
            [tp.partition],
            bytes_each=messages * size,
            message_bytes=size,
        )
        assert written == messages

    async def use_coordinator(self, kind: CoordinatorKind, name: str) -> None:
        if kind is CoordinatorKind.TRANSACTION:
            producer = workload.acked_producer(self.connection, {"transactional.id": name})
            await asyncio.to_thread(producer.init_transactions, 60.0)
        elif kind is CoordinatorKind.SHARE_GROUP:
            consumer = ShareConsumer(
                {**self.connection.for_confluent(), "group.id": name, "log_level": 0}
            )
            consumer.subscribe([name])
            # Closing it has hung in the client's own code: only a daemon may be left behind.
            use = threading.Thread(target=_read_once, args=(consumer,), daemon=True)
            use.start()
            await asyncio.to_thread(use.join, 20.0)
        else:
            groups = self.memberships()
            await groups.join(name, b"", 60.0)
            await groups.aclose()

    async def fail_log_dir(self, broker: int, path: str) -> None:
        del broker  # a lab's brokers are on this machine
        await asyncio.to_thread(break_dir, Path(path))

    async def aclose(self) -> None:
        brokers = await self._wire.broker_ids()
        rates = (setting(ConfigScope.BROKER, str(b), RATE, ConfigOp.DELETE) for b in brokers)
        await change(self, *rates)
        await asyncio.to_thread(workload.delete_topics, self.connection, self._topics)
        for way in (self.reader, self.writer, self._wire):
            await way.aclose()
