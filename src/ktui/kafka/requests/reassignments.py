"""Ongoing reassignments: asking for them, starting and cancelling them (KIP-455)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kafka.protocol.admin.topics import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.text import clean
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose

FIRST_WITHOUT_KEPT = 30
"""The lowest metadata.version of Kafka 4.3."""
_EVERY_S = 60.0
_PURPOSE = Purpose("asking for the metadata version")

_versions = partial(
    ApiVersionsRequest,
    client_software_name="ktui",
    client_software_version="0",
    min_version=3,
)


class Completion:
    """Knows it of one cluster, and asks again now and then: clusters are upgraded."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._waits = True
        self._asked_s: float | None = None

    async def waits_for_kept(self) -> bool:
        """Whether a kept replica that is out of sync holds a step up, or nobody tells."""
        now_s = time.monotonic()
        if self._asked_s is None or now_s - self._asked_s >= _EVERY_S:
            self._asked_s = now_s
            self._waits = await self._asked()
        return self._waits

    async def _asked(self) -> bool:
        try:
            answer = await self._wire.ask(_PURPOSE, _versions)
        except ClusterError:
            return True
        levels = {f.name: f.max_version_level for f in answer.finalized_features or ()}
        return bool(levels.get("metadata.version", 0) < FIRST_WITHOUT_KEPT)


TargetsOrCancel = Mapping[TopicPartition, tuple[int, ...] | None]
"""What each partition is to move to; None cancels."""


def list_request(timeout_s: float) -> Any:
    """Ask for every ongoing reassignment of the cluster."""
    return ListPartitionReassignmentsRequest(timeout_ms=int(timeout_s * 1000), topics=None)


def listed(answer: Any) -> Mapping[TopicPartition, Reassignment]:
    """Read a ListPartitionReassignments answer."""
    return {
        TopicPartition(clean(topic.name), told.partition_index): Reassignment(
            replicas=tuple(told.replicas),
            adding=tuple(told.adding_replicas),
            removing=tuple(told.removing_replicas),
        )
        for topic in answer.topics
        for told in topic.partitions
    }


def alter_request(targets: TargetsOrCancel, timeout_s: float, *, guarded: bool) -> Any:
    """Start or cancel reassignments.

    `guarded` has the broker refuse targets of another replication factor, which it can since 4.1
    (version 1); older brokers cannot be sent such a request, and the client raises.
    """
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[Any]] = {}
    for tp, replicas in targets.items():
        told = topic.ReassignablePartition(
            partition_index=tp.partition, replicas=None if replicas is None else list(replicas)
        )
        topics.setdefault(tp.topic, []).append(told)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(timeout_s * 1000),
        allow_replication_factor_change=not guarded,
        topics=[topic(name=name, partitions=told) for name, told in topics.items()],
        min_version=1 if guarded else 0,
    )


def altered(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
    """Give each partition's error code and the controller's message."""
    for topic in answer.responses:
        for told in topic.partitions:
            tp = TopicPartition(topic.name, told.partition_index)
            yield tp, told.error_code, told.error_message
