"""Topics and reassignments that move slowly, are held, or never complete on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Verdict
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import (
    create_topic,
    delete_topics,
    fill,
    remove_throttles,
    throttle_followers,
)
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from support.contract.world import RATE, RealWorld, change, setting
from support.kafka.metadata_log import Alter, alters, dumped, partitions_among

OLD, NEW = [2, 1, 3], [4, 1, 3]
PARTITIONS = 4


class SlowTopic:
    """Partitions with data, whose copies to broker 4 take minutes unless `let_go` is called."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.name = name
        self.connection = Connection.to(lab.bootstrap_servers)
        self._adding = [Replica(TopicPartition(name, n), 4) for n in range(PARTITIONS)]
        create_topic(self.connection, name, [OLD] * PARTITIONS)
        fill(self.connection, name, range(PARTITIONS), bytes_each=2 * 1024 * 1024)
        throttle_followers(self.connection, self._adding, bytes_s=10_000)

    def let_go(self) -> None:
        remove_throttles(self.connection, self._adding)

    @property
    def targets(self) -> list[dict[str, Any]]:
        return [{"topic": self.name, "partition": n, "replicas": NEW} for n in range(PARTITIONS)]


ORIGINAL, TARGET = (2, 1, 3), (4, 1, 3)


@contextmanager
def slow_move(
    connection: Connection,
    topic: str,
    *,
    partitions: int = 1,
    mebibytes: int = 7,
    bytes_s: int = 70_000,
) -> Iterator[list[TopicPartition]]:
    """Move new partitions with data from (2, 1, 3) to (4, 1, 3), slowly.

    Each has fewer than a thousand messages, so that a view shows its lag to the message.
    """
    tps = [TopicPartition(topic, number) for number in range(partitions)]
    adding = [Replica(tp, 4) for tp in tps]
    create_topic(connection, topic, [ORIGINAL] * partitions)
    try:
        fill(connection, topic, range(partitions), bytes_each=mebibytes * 1024 * 1024)
        throttle_followers(connection, adding, bytes_s=bytes_s)
        asyncio.run(_start(connection, tps))
        yield tps
    finally:
        remove_throttles(connection, adding)
        delete_topics(connection, [topic])


async def _start(connection: Connection, tps: list[TopicPartition]) -> None:
    writer = KafkaWriter(connection)
    results = await writer.alter_reassignments(
        dict.fromkeys(tps, TARGET), allow_replication_factor_change=False
    )
    await writer.aclose()
    assert all(result.verdict is Verdict.ACCEPTED for result in results.values()), results


@contextmanager
def filled_topic(
    connection: Connection, name: str, replicas: Sequence[Sequence[int]], *, bytes_each: int
) -> Iterator[str]:
    """Create a topic with data in each partition, and delete it after the block."""
    create_topic(connection, name, replicas)
    fill(connection, name, range(len(replicas)), bytes_each=bytes_each)
    try:
        yield name
    finally:
        delete_topics(connection, [name])


BYTES_EACH = 512 * 1024  # bytes per partition: too many for a single fetch


async def slow_down(world: RealWorld, *brokers: int) -> None:
    """Throttle brokers to almost nothing for the replicas that `hold` lists."""
    rates = (setting(ConfigScope.BROKER, str(b), RATE, ConfigOp.SET, "1000") for b in brokers)
    await change(world, *rates)


async def hold(world: RealWorld, topic: str, *replicas: str) -> None:
    """Keep replicas like "0:4" (a partition and a broker) from being copied."""
    listed = ",".join(replicas)
    entry = setting(ConfigScope.TOPIC, topic, FOLLOWER_REPLICAS, ConfigOp.SET, listed)
    await change(world, entry)


async def let_go(world: RealWorld, *topics: str) -> None:
    """Release the held replicas of some topics."""
    lists = (setting(ConfigScope.TOPIC, t, FOLLOWER_REPLICAS, ConfigOp.DELETE) for t in topics)
    await change(world, *lists)


def altered_while_moving(lab: Lab, *topics: str) -> list[Alter]:
    """Return the alters of partitions that were moving already, without cancels."""
    records = list(dumped(lab))
    found = (alter for topic in topics for alter in alters(partitions_among(records, topic)))
    return [alter for alter in found if alter.while_moving and alter.adding]


ALIVE_TARGET, DEAD_TARGET = 4, 5

Targets = dict[TopicPartition, tuple[int, ...] | None]


@contextmanager
def hanging_moves(connection: Connection, topic: str, count: int) -> Iterator[None]:
    """Move `count` partitions of a new topic from [1], [2] or [3] to [same, 4, 5].

    Broker 5 must be down: 4 joins the ISR, 5 never does, and a 4.3 cluster waits for it.
    """
    homes = [1 + number % 3 for number in range(count)]
    create_topic(connection, topic, [[home] for home in homes])
    targets: Targets = {
        TopicPartition(topic, number): (home, ALIVE_TARGET, DEAD_TARGET)
        for number, home in enumerate(homes)
    }
    try:
        asyncio.run(_alter(connection, targets))
        yield
    finally:
        asyncio.run(_alter(connection, dict.fromkeys(targets)))
        delete_topics(connection, [topic])


async def _alter(connection: Connection, targets: Targets) -> None:
    writer = KafkaWriter(connection)
    try:
        results = await writer.alter_reassignments(targets, allow_replication_factor_change=True)
    finally:
        await writer.aclose()
    _all_accepted(results.values())


def _all_accepted(results: Collection[object]) -> None:
    bad = [result for result in results if getattr(result, "verdict", None) is not Verdict.ACCEPTED]
    if bad:
        raise AssertionError(f"{len(bad)} of {len(results)} were not accepted: {bad[0]}")
