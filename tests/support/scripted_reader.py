"""A ClusterReader that answers what a test has written down, for tests of the polling itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime, timedelta

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    LogDirsAnswer,
    OffsetsAnswer,
    TopicConfigsAnswer,
    TopicsAnswer,
)


class ManualClock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)


class ScriptedReader:
    """Answers from plain dictionaries, counts its calls, and can be slow or broken per broker."""

    def __init__(self, brokers: Collection[int] = (1, 2, 3, 4, 5)) -> None:
        self.brokers = {b: Broker(b, "127.0.0.1", 9000 + b) for b in brokers}
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.listed: dict[TopicPartition, Reassignment] = {}
        self.ends: dict[tuple[TopicPartition, int], int] = {}
        self.hanging: dict[int, asyncio.Event] = {}
        self.broken: dict[str, ClusterError] = {}
        self.calls: Counter[str] = Counter()
        self.asked_offsets: list[tuple[int, frozenset[TopicPartition]]] = []
        self.described: list[frozenset[str]] = []
        self.closed = False

    def add(
        self, topic: str, partition: int, replicas: tuple[int, ...], **more: object
    ) -> TopicPartition:
        tp = TopicPartition(topic, partition)
        values: dict[str, object] = {"isr": replicas, "leader": replicas[0], "leader_epoch": 1}
        values |= more
        self.partitions[tp] = PartitionState(tp, f"id-{topic}", replicas, **values)  # type: ignore[arg-type]  # a test's own words
        return tp

    def reassign(
        self,
        tp: TopicPartition,
        *,
        replicas: tuple[int, ...],
        adding: tuple[int, ...] = (),
        removing: tuple[int, ...] = (),
    ) -> None:
        self.listed[tp] = Reassignment(replicas, adding, removing)

    async def describe_cluster(self) -> ClusterDescription:
        self._called("describe_cluster")
        return ClusterDescription("scripted", 1, dict(self.brokers))

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        self._called("list_reassignments")
        return dict(self.listed)

    async def describe_topics(self, names: Collection[str]) -> TopicsAnswer:
        self._called("describe_topics")
        self.described.append(frozenset(names))
        found = {tp: state for tp, state in self.partitions.items() if tp.topic in names}
        return TopicsAnswer(found, frozenset(names) - {tp.topic for tp in found})

    async def scan_topics(self) -> AsyncIterator[TopicsAnswer]:
        self._called("scan_topics")
        for tp, state in sorted(self.partitions.items()):
            yield TopicsAnswer({tp: state})

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        self._called("log_offsets")
        self.asked_offsets.append((broker, frozenset(ends)))
        if broker in self.hanging:
            await self.hanging[broker].wait()
        known = {tp: self.ends[tp, broker] for tp in ends if (tp, broker) in self.ends}
        errors = dict.fromkeys(set(ends) - known.keys(), "UNKNOWN_TOPIC_OR_PARTITION")
        return OffsetsAnswer(known, dict.fromkeys(starts, 0), errors)

    async def log_dirs(self, broker: int, partitions: Collection[TopicPartition]) -> LogDirsAnswer:
        self._called("log_dirs")
        sizes = {tp: 100 * self.ends.get((tp, broker), 0) for tp in partitions}
        return LogDirsAnswer((LogDir(broker, "/data"),), sizes)

    async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
        self._called("topic_configs")
        return TopicConfigsAnswer({name: TopicConfig() for name in names})

    async def broker_config(self, broker: int) -> BrokerConfig:
        del broker
        self._called("broker_config")
        return BrokerConfig()

    async def aclose(self) -> None:
        self.closed = True

    def _called(self, what: str) -> None:
        self.calls[what] += 1
        if what in self.broken:
            raise self.broken[what]
