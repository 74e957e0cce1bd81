"""A lab for the benchmarks, and reassignments on it that never complete."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ktui.cli.lab.command import connect
from ktui.cluster.partition import TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.kafka.writer import KafkaWriter
from ktui.lab import control
from ktui.lab.down import down
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest, up

DEAD = 5


@contextmanager
def lab_with_a_dead_broker() -> Iterator[Lab]:
    """Start five brokers and kill the last one; a move onto it hangs without any data."""
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        lab = up(Path(folder) / "lab", LabRequest(), connect, lambda _: None)
        try:
            control.kill(lab, DEAD)
            asyncio.run(_until_fenced(lab))
            yield lab
        finally:
            down(lab, keep=False)


async def _until_fenced(lab: Lab) -> None:
    reader = connect({"bootstrap.servers": lab.bootstrap_servers})
    while (await reader.describe_cluster()).brokers[DEAD].alive:  # noqa: ASYNC110 - the cluster sends no notification
        await asyncio.sleep(0.5)
    await reader.aclose()


@contextmanager
def moving(lab: Lab, count: int) -> Iterator[None]:
    """Start `count` moves from [1], [2] or [3] to [same, 4, 5], which never complete."""
    if count == 0:
        yield
        return
    connection, topic = Connection.to(lab.bootstrap_servers), f"bench-{count}"
    homes = [1 + number % 3 for number in range(count)]
    create_topic(connection, topic, [[home] for home in homes])
    asyncio.run(_move(connection, topic, homes))
    try:
        yield
    finally:
        delete_topics(connection, [topic])


async def _move(connection: Connection, topic: str, homes: list[int]) -> None:
    writer = KafkaWriter(connection)
    targets: dict[TopicPartition, tuple[int, ...] | None] = {
        TopicPartition(topic, number): (home, 4, DEAD) for number, home in enumerate(homes)
    }
    await writer.alter_reassignments(targets, allow_replication_factor_change=True)
    await writer.aclose()
