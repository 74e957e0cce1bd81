"""Brokers that really die and really hang, seen through the reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from ktui.cluster.errors import ClusterError, TimedOut, Unreachable
from ktui.cluster.partition import TopicPartition
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from support.contract.world import until
from support.kafka.labs import Outage


@pytest.fixture
async def reader(bootstrap: str) -> AsyncIterator[KafkaReader]:
    reader = KafkaReader(Connection.to(bootstrap), timeout_s=3)
    yield reader
    await reader.aclose()


@pytest.fixture
def tp(bootstrap: str, topic_name: str) -> Iterator[TopicPartition]:
    workload.create_topic(Connection.to(bootstrap), topic_name, [[5, 1, 2]])
    yield TopicPartition(topic_name, 0)
    workload.delete_topics(Connection.to(bootstrap), [topic_name])


async def test_a_dead_broker_is_shown_fenced_and_only_its_own_figures_are_lost(
    outage: Outage, reader: KafkaReader, tp: TopicPartition
) -> None:
    await reader.log_offsets(5, ends=[tp])
    outage.kill(5)

    async def fenced() -> bool:
        return not (await reader.describe_cluster()).brokers[5].alive

    assert await until(fenced)
    with pytest.raises(Unreachable, match="broker 5"):
        await reader.log_offsets(5, ends=[tp])

    async def led_by_another() -> bool:
        state = (await reader.describe_topics([tp.topic])).partitions[tp]
        return state.leader == 1 and state.offline == (5,) and set(state.isr) == {1, 2}

    assert await until(led_by_another)
    assert (await reader.log_offsets(1, ends=[tp])).ends == {tp: 0}
    assert (await reader.list_reassignments()) == {}


async def test_a_broker_down_at_the_first_call_is_found_when_it_is_back(
    outage: Outage, reader: KafkaReader, tp: TopicPartition
) -> None:
    outage.kill(5)

    async def missing() -> bool:
        with pytest.raises(Unreachable) as caught:
            await reader.log_offsets(5, ends=[tp])
        return "no such live broker" in caught.value.answer

    assert await until(missing)
    await asyncio.to_thread(outage.mend)

    async def found() -> bool:  # not all brokers learn of it at once
        try:
            return bool((await reader.log_dirs(5, [])).log_dirs)
        except Unreachable:
            return False

    assert await until(found)


async def test_a_hanging_broker_times_out_while_the_cluster_is_still_read(
    outage: Outage, reader: KafkaReader, tp: TopicPartition
) -> None:
    for broker in range(1, 6):
        await reader.log_dirs(broker, [])
    outage.suspend(5)

    with pytest.raises(TimedOut, match="broker 5"):
        await reader.log_offsets(5, ends=[tp])
    # The open connection is closed; the kernel accepts a new one, and nobody answers it.
    with pytest.raises(ClusterError, match="broker 5"):
        await reader.log_offsets(5, ends=[tp])

    for _ in range(10):
        assert (await reader.list_reassignments()) == {}
        assert tp in (await reader.describe_topics([tp.topic])).partitions
