"""Preferred leader elections (KIP-460)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from kafka.protocol.admin.topics import ElectionType, ElectLeadersRequest

from ktui.cluster.partition import TopicPartition
from ktui.kafka.transport.batches import by_topic


def elect_request(partitions: Collection[TopicPartition], timeout_s: float) -> Any:
    """Build a request to elect the first replica of each partition."""
    topic = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=ElectionType.PREFERRED,
        topic_partitions=[
            topic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()
        ],
        timeout_ms=int(timeout_s * 1000),
    )


def read_election_results(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
    """Yield each partition with its error code and the controller's message."""
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            tp = TopicPartition(topic.topic, result.partition_id)
            yield tp, result.error_code, result.error_message
