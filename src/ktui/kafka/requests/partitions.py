"""Requests that add partitions to a topic (KIP-195)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafka.protocol.admin.topics import CreatePartitionsRequest

from ktui.cluster.partition import Brokers


def create_request(
    topic: str,
    count: int,
    assignment: Sequence[Brokers] | None,
    timeout_s: float,
    *,
    validate_only: bool,
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
        validate_only=validate_only,
    )


def read_create_results(answer: Any) -> Iterator[tuple[str, int, str | None]]:
    """Yield each topic with its error code and the controller's message."""
    for result in answer.results:
        yield result.name, result.error_code, result.error_message
