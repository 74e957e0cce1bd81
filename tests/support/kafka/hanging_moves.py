"""Reassignments that never complete, without any data: one of their targets is a dead broker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.kafka.writer import KafkaWriter

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
