"""Plans and clusters for preflights: values, each partition by its replicas, target and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan

GB = 1_000_000_000
TOPIC = "orders"
Way = tuple[tuple[int, ...], tuple[int, ...]]
"""The replicas of a partition, of which the first leads, and its target replicas."""


def tp(number: int) -> TopicPartition:
    return TopicPartition(TOPIC, number)


def a_plan(*ways: Way) -> Plan:
    return Plan(
        tuple(PartitionTarget(TOPIC, number, target) for number, (_, target) in enumerate(ways))
    )


def a_snapshot(
    *ways: Way,
    sizes: Iterable[int | None] = (),
    rooms: Mapping[int, tuple[int, int]] | None = None,
    min_isr: int = 1,
    **more: Any,
) -> ClusterSnapshot:
    """Return a healthy cluster that holds the partitions of a plan.

    Args:
        ways: partitions 0, 1, ... of one topic.
        sizes: of each partition, in bytes; 1 GB where there is none, None for an unknown one.
        rooms: total and usable bytes of brokers' disks.
        min_isr: the topic's min.insync.replicas.
        more: further fields of the snapshot.
    """
    given = [*sizes, *[GB] * len(ways)]
    states = {
        tp(n): PartitionState(
            tp=tp(n), topic_id=None, replicas=replicas, isr=replicas, leader=replicas[0]
        )
        for n, (replicas, _) in enumerate(ways)
    }
    known = {
        Replica(tp(n), way[0][0]): size
        for n, (way, size) in enumerate(zip(ways, given, strict=False))
        if size is not None
    }
    brokers = {broker for way in ways for replicas in way for broker in replicas}
    fields: dict[str, Any] = {
        "partitions": states,
        "brokers": {broker: Broker(broker) for broker in sorted(brokers)},
        "configs": {TOPIC: TopicConfig(min_insync_replicas=min_isr)},
        "sizes": known,
        "log_dirs": {
            broker: (LogDir(broker, "/data", total_bytes=total, usable_bytes=usable),)
            for broker, (total, usable) in (rooms or {}).items()
        },
    }
    return ClusterSnapshot(**(fields | more))
