"""The calls of one poll, made with the bare client: the least any program has to spend.

As a script, `python bare_calls.py HOST:PORT` makes them once, for comparison with `ktui list`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest

LATEST, EARLIEST, ANY_REPLICA = -1, -2, -2
TOPIC, BROKER = 2, 4
TOPIC_KEYS = [
    "cleanup.policy",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.insync.replicas",
    "remote.storage.enable",
]
BROKER_KEYS = [
    "auto.leader.rebalance.enable",
    "follower.replication.throttled.rate",
    "leader.imbalance.check.interval.seconds",
    "leader.replication.throttled.rate",
    "min.insync.replicas",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "replica.fetch.backoff.ms",
    "replica.lag.time.max.ms",
    "unclean.leader.election.enable",
]

Partitions = dict[str, list[int]]


class BareCalls:
    """A connection pool without any code of ktui."""

    def __init__(self, bootstrap: str) -> None:
        self._net: Any = NetworkSelector()
        self._manager: Any = KafkaConnectionManager(
            self._net, bootstrap_servers=bootstrap.split(","), receive_message_max_bytes=200_000_000
        )
        self._net.start()
        self._manager.bootstrap()

    def poll(self, *, first: bool) -> int:
        """Make a poll's calls; `first` adds sizes and settings, which later polls rarely read.

        Returns:
            The number of partitions being reassigned.
        """
        count: int = self._manager.run(self._poll, first)
        return count

    def close(self) -> None:
        """Close every connection."""
        self._manager.run(self._manager.close)
        self._net.stop()
        self._net.close()

    async def _poll(self, first: bool) -> int:  # noqa: FBT001 - the client's run takes no keywords
        cluster, listed = await self._all(
            (DescribeClusterRequest(include_fenced_brokers=True), None),
            (ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None), None),
        )
        names = [topic.name for topic in listed.topics]
        if not names:
            return 0
        alive = {broker.broker_id for broker in cluster.brokers if not broker.is_fenced}
        ends, starts = await self._by_broker(names, listed)
        requests: list[tuple[Any, int | None]] = [
            (_offsets(per_broker[b], stamp), b)
            for per_broker, stamp in ((ends, LATEST), (starts, EARLIEST))
            for b in per_broker.keys() & alive
        ]
        if first:
            requests += _rare_requests(names, ends, alive)
        await self._all(*requests)
        return sum(len(topic.partitions) for topic in listed.topics)

    async def _all(self, *requests: tuple[Any, int | None]) -> list[Any]:
        sent = [self._manager.send(request, node_id=node) for request, node in requests]
        return [await answer for answer in sent]

    async def _by_broker(
        self, names: list[str], listed: Any
    ) -> tuple[dict[int, Partitions], dict[int, Partitions]]:
        ends: dict[int, Partitions] = defaultdict(lambda: defaultdict(list))
        starts: dict[int, Partitions] = defaultdict(lambda: defaultdict(list))
        for topic in listed.topics:
            for partition in topic.partitions:
                for broker in partition.adding_replicas:
                    ends[broker][topic.name].append(partition.partition_index)
        for name, index, leader in await self._leaders(names):
            ends[leader][name].append(index)
            starts[leader][name].append(index)
        return ends, starts

    async def _leaders(self, names: list[str]) -> list[tuple[str, int, int]]:
        leaders: list[tuple[str, int, int]] = []
        cursor: Any = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
                response_partition_limit=2_000,
                cursor=cursor,
            )
            answer = await self._manager.send(request)
            leaders += [
                (topic.name, partition.partition_index, partition.leader_id)
                for topic in answer.topics
                for partition in topic.partitions
            ]
            if answer.next_cursor is None:
                return leaders
            cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=answer.next_cursor.topic_name,
                partition_index=answer.next_cursor.partition_index,
            )
            names = [name for name in names if name >= cursor.topic_name]


def _offsets(partitions: Partitions, stamp: int) -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=ANY_REPLICA,
        isolation_level=0,
        topics=[
            topic(
                name=name,
                partitions=[partition(partition_index=i, timestamp=stamp) for i in indexes],
            )
            for name, indexes in partitions.items()
        ],
        timeout_ms=10_000,
    )


def _rare_requests(
    names: list[str], ends: dict[int, Partitions], alive: set[int]
) -> list[tuple[Any, int | None]]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    topics = [
        resource(resource_type=TOPIC, resource_name=name, configuration_keys=TOPIC_KEYS)
        for name in names
    ]
    requests: list[tuple[Any, int | None]] = [(DescribeConfigsRequest(resources=topics), None)]
    for broker in ends.keys() & alive:
        settings = resource(
            resource_type=BROKER, resource_name=str(broker), configuration_keys=BROKER_KEYS
        )
        dirs = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in ends[broker].items()
        ]
        requests += [
            (DescribeConfigsRequest(resources=[settings]), broker),
            (DescribeLogDirsRequest(topics=dirs), broker),
        ]
    return requests


if __name__ == "__main__":
    calls = BareCalls(sys.argv[1])
    print(calls.poll(first=True))
    calls.close()
