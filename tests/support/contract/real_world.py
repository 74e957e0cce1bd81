"""A real cluster as a contract test's world."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import ShareConsumer

from ktui.cluster.clock import SystemClock
from ktui.cluster.coordination import CoordinatorKind
from ktui.cluster.ownership import GroupMembership
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.kafka import workload
from ktui.kafka.claim import KafkaGroups
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests.metadata import PAGE, page_request
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose
from ktui.kafka.writer import KafkaWriter
from ktui.lab.control import break_dir
from support.contract.world import RATE, change, setting, until

_LOOKING = Purpose("looking whether a broker knows a new topic")


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
            await asyncio.to_thread(consumer.poll, 5.0)
            await asyncio.to_thread(consumer.close)
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
