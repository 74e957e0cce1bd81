"""A reassignment with real data, throttled so that it can be observed for a minute or two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import (
    create_topic,
    delete_topics,
    fill,
    remove_throttles,
    throttle_followers,
)
from ktui.kafka.writer import KafkaWriter

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
