"""A permanently dead broker is drained of its replicas, on Kafka before and from 4.3."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.states import State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import create_topic, delete_topics, fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import SHAPES, Limits, Shape
from support.contract.world import LIMIT_S
from support.kafka.labs import Outage, is_before_43
from support.kafka.real_runs import RealRun, described

DEAD = 5
MIB = 1024 * 1024
BEFORE_AND_AFTER = [
    ((1, 2, 5), (1, 2, 3)),
    ((5, 1, 2), (4, 1, 2)),  # it led
    ((3, 5, 4), (3, 2, 4)),
    ((2, 4, 5), (4, 2, 1)),  # and another replica is to lead
]


@pytest.fixture
def topics(lab_of: Lab, topic_name: str) -> Iterator[dict[Shape, str]]:
    """A topic for each shape, with data."""
    connection = Connection.to(lab_of.bootstrap_servers)
    topics = {shape: f"{shape.value}-{topic_name}" for shape in SHAPES}
    for topic in topics.values():
        create_topic(connection, topic, [list(before) for before, _ in BEFORE_AND_AFTER])
        fill(connection, topic, range(len(BEFORE_AND_AFTER)), bytes_each=MIB)
    yield topics
    delete_topics(connection, topics.values())


@pytest.fixture
def outage(lab_of: Lab) -> Iterator[Outage]:
    """Breaks brokers of `lab_of` and restores them after the test."""
    outage = Outage(lab_of)
    yield outage
    outage.mend()


def test_both_shapes_drain_a_dead_broker(
    lab_of: Lab, topics: dict[Shape, str], outage: Outage, tmp_path: Path
) -> None:
    connection = Connection.to(lab_of.bootstrap_servers)
    outage.kill(DEAD)
    assert asyncio.run(_until_fenced(connection)) == is_before_43(lab_of)

    for shape, topic in topics.items():
        targets = {TopicPartition(topic, n): after for n, (_, after) in enumerate(BEFORE_AND_AFTER)}
        folder = tmp_path / shape.value
        folder.mkdir()
        run = RealRun(lab_of, folder, targets, Limits(replicas=1, shape=shape), poll_s=0.3)
        asyncio.run(asyncio.wait_for(run.to_its_end(), LIMIT_S))

        assert run.run.counts[State.DONE] == len(targets)
        states = asyncio.run(described(connection, topic))
        assert {tp: (state.replicas, state.leader) for tp, state in states.items()} == {
            tp: (after, after[0]) for tp, after in targets.items()
        }


async def _until_fenced(connection: Connection) -> bool:
    """Wait until the dead broker is fenced; return whether Kafka waits for kept replicas."""
    reader = KafkaReader(connection)
    clock = SystemClock()
    try:
        while (broker := (await reader.describe_cluster()).brokers.get(DEAD)) and broker.alive:
            await clock.sleep(0.2)
        return (await reader.describe_cluster()).waits_for_kept
    finally:
        await reader.aclose()
