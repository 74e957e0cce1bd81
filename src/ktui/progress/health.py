"""Whether a partition is as available and as redundant as it should be."""

from __future__ import annotations

import enum

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState


class Health(enum.StrEnum):
    """The worst condition that holds for a partition."""

    OK = "ok"
    UNDER_REPLICATED = "under-replicated"
    UNDER_MIN_ISR = "under min ISR"
    OFFLINE = "offline"
    UNKNOWN = "unknown"
    """Its metadata could not be read."""


def health(state: PartitionState, config: TopicConfig | None) -> Health:
    """Judge a partition as Kafka's own metrics do.

    A replica being added does not count as missing: during a move the original replication factor
    applies. Without `config`, min.insync.replicas is unknown and is not judged.
    """
    if not state.described:
        return Health.UNKNOWN
    if state.leader is None:
        return Health.OFFLINE
    needed = 0 if config is None else min(config.min_insync_replicas, len(state.replicas))
    if len(state.isr) < needed:
        return Health.UNDER_MIN_ISR
    if state.out_of_sync or len(state.isr) < len(state.original):
        return Health.UNDER_REPLICATED
    return Health.OK
