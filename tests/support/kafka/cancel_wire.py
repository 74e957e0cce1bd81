"""The requests to a cluster while partitions are cancelled: reassignments and polls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import AlterPartitionReassignmentsRequest
from kafka.protocol.api_key import ApiKey
from ktui.cluster.partition import TopicPartition
from ktui.lab.layout import Lab
from support.kafka.proxy import ProxiedCluster

Replicas = tuple[int, ...]


class Arrived(NamedTuple):
    """One request as a broker received it."""

    at_s: float
    """Wall-clock time in seconds, as in the rows of the journal."""
    key: int
    targets: Mapping[TopicPartition, Replicas | None]
    """The targets of an AlterPartitionReassignments; None for a cancel."""


class CancelWire(ProxiedCluster):
    """The proxies of a lab's brokers, and every request that passed them, in order."""

    def __init__(self, lab: Lab) -> None:
        super().__init__({node.id: ("127.0.0.1", node.port) for node in lab.brokers})
        self.arrived: list[Arrived] = []
        for proxy in self.brokers.values():
            proxy.witness = self._comes

    def _comes(self, key: int, version: int, frame: bytes) -> None:
        targets = _targets(version, frame) if key == ApiKey.AlterPartitionReassignments else {}
        self.arrived.append(Arrived(time.time(), key, targets))

    def altered(self, since: int = 0) -> list[tuple[TopicPartition, Replicas | None]]:
        """Return the targets requested for partitions, starting at request `since`."""
        return [one for arrived in self.arrived[since:] for one in arrived.targets.items()]

    def count(self, key: int, *, since: int, until: int) -> int:
        """Count the requests of one kind between two places in the order."""
        return sum(arrived.key == key for arrived in self.arrived[since:until])


def _targets(version: int, frame: bytes) -> dict[TopicPartition, Replicas | None]:
    request: Any = AlterPartitionReassignmentsRequest.decode(frame, version=version, header=True)
    return {
        TopicPartition(topic.name, one.partition_index): (
            None if one.replicas is None else tuple(one.replicas)
        )
        for topic in request.topics
        for one in topic.partitions
    }
