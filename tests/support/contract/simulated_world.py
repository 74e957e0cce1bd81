"""A simulated cluster as a contract test's world."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.cluster.coordination import GROUPS_TOPIC, CoordinatorKind
from ktui.cluster.ownership import GroupMembership
from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, TopicSpec

SIMULATED = VERSIONS[-1]
"""The release that is simulated by default."""
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
