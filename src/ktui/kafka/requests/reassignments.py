"""Requests that list, start and cancel reassignments (KIP-455)."""

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

_versions_request = partial(
    ApiVersionsRequest,
    client_software_name="ktui",
    client_software_version="0",
    min_version=3,
)


class CompletionRule:
    """The rule by which a cluster completes reassignments, refreshed every minute.

    Clusters are upgraded, so the answer may change.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._waits = True
        self._asked_s: float | None = None

    async def waits_for_kept(self) -> bool:
        """Whether a kept replica that is out of sync holds up a step; True if that is unknown."""
        now_s = time.monotonic()
        if self._asked_s is None or now_s - self._asked_s >= _EVERY_S:
            self._asked_s = now_s
            self._waits = await self._fetch_waits()
        return self._waits

    async def _fetch_waits(self) -> bool:
        try:
            answer = await self._wire.ask(_PURPOSE, _versions_request)
        except ClusterError:
            return True
        levels = {f.name: f.max_version_level for f in answer.finalized_features or ()}
        return bool(levels.get("metadata.version", 0) < FIRST_WITHOUT_KEPT)


TargetsOrCancel = Mapping[TopicPartition, tuple[int, ...] | None]
"""The target replicas of each partition; None cancels its reassignment."""


def list_request(timeout_s: float) -> Any:
    """Build a request for every ongoing reassignment of the cluster."""
    return ListPartitionReassignmentsRequest(timeout_ms=int(timeout_s * 1000), topics=None)


def read_reassignments(answer: Any) -> Mapping[TopicPartition, Reassignment]:
    """Read a ListPartitionReassignments answer."""
    return {
        TopicPartition(clean(topic.name), ongoing.partition_index): Reassignment(
            replicas=tuple(ongoing.replicas),
            adding=tuple(ongoing.adding_replicas),
            removing=tuple(ongoing.removing_replicas),
        )
        for topic in answer.topics
        for ongoing in topic.partitions
    }


def alter_request(targets: TargetsOrCancel, timeout_s: float, *, guarded: bool) -> Any:
    """Build a request that starts or cancels reassignments.

    With `guarded` the broker refuses targets of another replication factor. Brokers can do that
    since 4.1 (version 1). Such a request cannot be sent to older brokers: the client raises.
    """
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[Any]] = {}
    for tp, replicas in targets.items():
        partition = topic.ReassignablePartition(
            partition_index=tp.partition, replicas=None if replicas is None else list(replicas)
        )
        topics.setdefault(tp.topic, []).append(partition)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(timeout_s * 1000),
        allow_replication_factor_change=not guarded,
        topics=[topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        min_version=1 if guarded else 0,
    )


def read_alter_results(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
    """Yield each partition with its error code and the controller's message."""
    for topic in answer.responses:
        for result in topic.partitions:
            tp = TopicPartition(topic.name, result.partition_index)
            yield tp, result.error_code, result.error_message
