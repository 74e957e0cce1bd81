"""The orders in which kafka-reassign-partitions names topics, partitions and replicas."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.partition import Replica, TopicPartition


def sorted_topics(topics: Iterable[str]) -> list[str]:
    """Sort topics as Java does, by their UTF-16 code units."""
    return sorted(topics, key=_code_units)


def sorted_partitions(tps: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Sort partitions by topic, then by number."""
    return sorted(tps, key=lambda tp: (_code_units(tp.topic), tp.partition))


def sorted_replicas(replicas: Iterable[Replica]) -> list[Replica]:
    """Sort replicas by broker, then by topic and partition."""
    return sorted(
        replicas, key=lambda each: (each.broker, _code_units(each.tp.topic), each.tp.partition)
    )


def _code_units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
