"""Whether a partition is as available and as redundant as it should be."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation
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


class HealthCounts(msgspec.Struct, frozen=True):
    """How many partitions are unhealthy, each counted once by its worst condition."""

    offline: int = 0
    under_min_isr: int = 0
    under_replicated: int = 0
    counted_at: datetime | None = None
    """When all partitions of the cluster were counted; None where only polled ones are."""

    @property
    def unhealthy(self) -> int:
        return self.offline + self.under_min_isr + self.under_replicated


def count_unhealthy(last: Observation) -> HealthCounts:
    """Count unhealthy partitions: polled ones as of the poll, all others as of the census."""
    counts = Counter(
        health(state, last.topic_configs.get(tp.topic)) for tp, state in last.partitions.items()
    )
    counts.update(_by_census(last))
    return HealthCounts(
        counts[Health.OFFLINE],
        counts[Health.UNDER_MIN_ISR],
        counts[Health.UNDER_REPLICATED],
        None if last.census is None else last.census.at,
    )


def _by_census(last: Observation) -> Iterator[Health]:
    """Yield the condition of each unhealthy partition that was not polled."""
    if last.census is None:
        return
    sizes = last.census.in_sync
    for number, tp in enumerate(last.census.unhealthy):
        if tp in last.partitions:
            continue
        if sizes is None:
            yield Health.UNDER_REPLICATED
            continue
        config = last.topic_configs.get(tp.topic)
        if sizes[number] == 0:
            yield Health.OFFLINE
        elif config is not None and sizes[number] < config.min_insync_replicas:
            yield Health.UNDER_MIN_ISR
        else:
            yield Health.UNDER_REPLICATED
