"""Requests that add partitions to a topic (KIP-195)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from kafka.protocol.admin.topics import CreatePartitionsRequest

from ktui.cluster.kafka_error import KafkaError, error_of
from ktui.cluster.partition import Brokers


def create_request(
    topic: str,
    count: int,
    assignment: Sequence[Brokers] | None,
    timeout_s: float,
) -> Any:
    """Build a request for a topic to have `count` partitions; without assignment, Kafka places."""
    of_topic = CreatePartitionsRequest.CreatePartitionsTopic
    placed = None
    if assignment is not None:
        replicas = of_topic.CreatePartitionsAssignment
        placed = [replicas(broker_ids=list(brokers)) for brokers in assignment]
    return CreatePartitionsRequest(
        topics=[of_topic(name=topic, count=count, assignments=placed)],
        timeout_ms=int(timeout_s * 1000),
        validate_only=False,
    )


def read_create_results(answer: Any) -> Iterator[tuple[str, int, str | None]]:
    """Yield each topic with its error code and the controller's message, or the wait."""
    for result in answer.results:
        message = result.error_message
        if error_of(result.error_code) is KafkaError.THROTTLING_QUOTA_EXCEEDED:
            wait_s = math.ceil(answer.throttle_time_ms / 1000)
            message = (
                "the quota controller_mutation_rate of this user or client id is used up for "
                f"{wait_s} s"
            )
        yield result.name, result.error_code, message
