"""What a plan is made from: every partition with its size, and the brokers with their room."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.replication_factor import BrokerPool

UNKNOWN_BYTES = 1024**3
"""The size of a partition that no broker reports: as under the limits of a run."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas of a cluster, and the brokers that they may go to."""

    partitions: Mapping[TopicPartition, PartitionState]
    """Every partition. While one is reassigned, its target counts as what it has."""
    pool: BrokerPool
    known: frozenset[int]
    """Every broker that is registered or has a replica, also those that are down."""
    unregistered: frozenset[int] = frozenset()
    """Of these, the ids that only replica lists still have. Kafka refuses targets that name them:
    such a replica can be moved away, and nothing else can be done to its partition."""
    sizes: Mapping[TopicPartition, int] = {}
    """Bytes of one replica, where a broker reports them."""
    room: Mapping[int, int] = {}
    """Bytes that fit on a broker's disks, where it reports them; others have no bound."""
    disks: Mapping[int, int] = {}
    """Bytes of a broker's disks in all, where it reports them."""
    weights: Mapping[int, float] = {}
    """The share that a broker is to have, beside others; 1 where absent."""

    def size(self, tp: TopicPartition) -> int:
        """Return the bytes of one replica of a partition, known or assumed."""
        return self.sizes.get(tp, UNKNOWN_BYTES)

    def weight(self, broker: int) -> float:
        """Return the share that a broker is to have, beside others."""
        return self.weights.get(broker, 1.0)
