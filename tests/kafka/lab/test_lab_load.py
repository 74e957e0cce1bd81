"""The data, streams and throttles that demos, tests and benchmarks put on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ktui.cluster.errors import Refused
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import OffsetsAnswer
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab import nodes

T = TypeVar("T")


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection.to(bootstrap)


def ask(connection: Connection, question: Callable[[KafkaReader], Awaitable[T]]) -> T:
    async def answer() -> T:
        reader = KafkaReader(connection)
        try:
            return await question(reader)
        finally:
            await reader.aclose()

    return asyncio.run(answer())


def ends_at(connection: Connection, broker: int, topic: str, partitions: int) -> list[int]:
    tps = [TopicPartition(topic, number) for number in range(partitions)]

    async def offsets(reader: KafkaReader) -> OffsetsAnswer:
        await reader.describe_cluster()
        return await reader.log_offsets(broker, ends=tps)

    answer = ask(connection, offsets)
    return [answer.ends[tp] for tp in tps]


def test_a_created_topic_has_the_requested_replicas_and_data(
    connection: Connection, topic_name: str
) -> None:
    replicas = workload.assign_round_robin(3, 2, [1, 2, 3])
    assert replicas == [[1, 2], [2, 3], [3, 1]]
    workload.create_topic(connection, topic_name, replicas, settings={"min.insync.replicas": "2"})
    written = workload.fill(connection, topic_name, [0, 2], bytes_each=10_001, message_bytes=1000)
    assert written == 11

    topics = ask(connection, lambda reader: reader.describe_topics([topic_name]))
    found = [topics.partitions[TopicPartition(topic_name, n)].replicas for n in range(3)]
    assert found == [(1, 2), (2, 3), (3, 1)]
    assert ends_at(connection, 1, topic_name, 1) == [11]
    workload.delete_topics(connection, [topic_name])


def test_a_refused_topic_raises_the_error_of_the_cluster(
    connection: Connection, topic_name: str
) -> None:
    with pytest.raises(Refused) as refused:
        workload.create_topic(connection, topic_name, [[1, 99]])
    assert refused.value.code == "INVALID_REPLICA_ASSIGNMENT"
    assert topic_name in str(refused.value)


def test_a_steady_producer_writes_to_every_partition_until_it_is_closed(
    connection: Connection, topic_name: str
) -> None:
    workload.create_topic(connection, topic_name, [[1], [1]])
    with workload.SteadyProducer(connection, topic_name, 2, messages_s=500) as producer:
        assert nodes.wait_for(lambda: producer.acknowledged > 100, seconds=60)
    assert producer.failed == 0
    first, second = ends_at(connection, 1, topic_name, 2)
    assert first + second == producer.acknowledged
    assert abs(first - second) <= 1
    workload.delete_topics(connection, [topic_name])


def test_a_throttle_is_set_for_the_named_replicas_and_removed(
    connection: Connection, topic_name: str
) -> None:
    workload.create_topic(connection, topic_name, [[1, 2], [2, 3]])
    slow = [Replica(TopicPartition(topic_name, 0), 2), Replica(TopicPartition(topic_name, 1), 3)]

    def lists() -> str:
        answer = ask(connection, lambda reader: reader.topic_configs([topic_name]))
        return answer.configs[topic_name].follower_throttled_replicas

    def rate(broker: int) -> int | None:
        answer = ask(connection, lambda reader: reader.broker_config(broker))
        return answer.follower_throttle_rate

    try:
        workload.throttle_followers(connection, slow, bytes_s=123_456)
        set_to = ("0:2,1:3", 123_456, 123_456)
        assert nodes.wait_for(lambda: (lists(), rate(2), rate(3)) == set_to, seconds=30)
    finally:
        workload.remove_throttles(connection, slow)
    assert nodes.wait_for(lambda: (lists(), rate(2), rate(3)) == ("", None, None), seconds=30)
    workload.delete_topics(connection, [topic_name])
