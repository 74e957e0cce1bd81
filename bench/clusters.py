"""A lab for the benchmarks, and reassignments on it that never complete."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.checks import check_count
from ktui.cli.lab import connect
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.kafka.writer import KafkaWriter
from ktui.lab import control
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest, down, up

DEAD = 5
_LARGEST = 2_000
"""Partitions per topic: a controller refuses to create too many at once."""


@contextmanager
def lab_of(brokers: int) -> Iterator[Lab]:
    """Start a lab in a folder of its own, and end it with the block."""
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        lab = up(Path(folder) / "lab", LabRequest(brokers=brokers), connect, lambda _: None)
        try:
            yield lab
        finally:
            down(lab, keep=False)


@contextmanager
def lab_with_a_dead_broker() -> Iterator[Lab]:
    """Start five brokers and kill the last one; a move onto it hangs without any data."""
    with lab_of(DEAD) as lab:
        control.kill(lab, DEAD)
        asyncio.run(_until_fenced(lab))
        yield lab


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
    connection = Connection.to(lab.bootstrap_servers)
    names = [f"bench-{count}" + f"-{n}" * (count > _LARGEST) for n in range(-(-count // _LARGEST))]
    homes = {
        TopicPartition(name, number): 1 + number % 3
        for place, name in enumerate(names)
        for number in range(min(_LARGEST, count - place * _LARGEST))
    }
    for name in names:
        create_topic(connection, name, [[home] for tp, home in homes.items() if tp.topic == name])
    asyncio.run(_move(connection, homes))
    try:
        yield
    finally:
        delete_topics(connection, names)


async def _move(connection: Connection, homes: Mapping[TopicPartition, int]) -> None:
    writer = KafkaWriter(connection)
    targets: dict[TopicPartition, tuple[int, ...] | None] = {
        tp: (home, 4, DEAD) for tp, home in homes.items()
    }
    results = await writer.alter_reassignments(targets, allow_replication_factor_change=True)
    await writer.aclose()
    accepted = sum(result.verdict is Verdict.ACCEPTED for result in results.values())
    check_count("moves that the cluster accepted", accepted, len(homes))
