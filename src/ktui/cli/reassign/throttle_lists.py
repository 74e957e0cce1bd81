"""The replicas and brokers that --execute --throttle throttles; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from ktui.cli.reassign.java_order import sorted_partitions
from ktui.cluster.partition import Brokers, Reassignment, TopicPartition
from ktui.cluster.throttle_settings import throttled_entry


class TopicThrottle(msgspec.Struct, frozen=True):
    """The lists of throttled replicas of one topic, as the values of its settings."""

    leaders: str
    followers: str


class MoveThrottles(msgspec.Struct, frozen=True):
    """Everything that has to be throttled."""

    topics: dict[str, TopicThrottle]
    brokers: frozenset[int]
    """The brokers that need a rate."""


class _Move(msgspec.Struct, frozen=True):
    sources: Collection[int]
    destinations: Collection[int]


def move_throttles(
    listed: Mapping[TopicPartition, Reassignment],
    targets: Mapping[TopicPartition, Brokers],
    replicas: Mapping[TopicPartition, Brokers],
) -> MoveThrottles:
    """Determine the throttles of a file's moves and of those already in the cluster.

    Args:
        listed: the reassignments of the cluster.
        targets: the file's replicas.
        replicas: the present replicas of the file's partitions.
    """
    moves = dict(_moves(listed, targets, replicas))
    by_topic: dict[str, dict[int, _Move]] = {}
    for tp in sorted_partitions(moves):
        by_topic.setdefault(tp.topic, {})[tp.partition] = moves[tp]
    return MoveThrottles(
        {topic: _topic_throttle(moves_of_topic) for topic, moves_of_topic in by_topic.items()},
        frozenset(b for move in moves.values() for b in (*move.sources, *move.destinations)),
    )


def _moves(
    listed: Mapping[TopicPartition, Reassignment],
    targets: Mapping[TopicPartition, Brokers],
    replicas: Mapping[TopicPartition, Brokers],
) -> Iterator[tuple[TopicPartition, _Move]]:
    """Yield each move; a move of the file comes after the one in the cluster that it replaces."""
    originals = dict(replicas)
    for tp, reassignment in listed.items():
        originals[tp] = _without(reassignment.replicas, reassignment.adding)
        yield tp, _Move(originals[tp], reassignment.adding)
    for tp, target in targets.items():
        sources = originals[tp]
        yield tp, _Move(sources, _without(target, sources))


def _without(brokers: Brokers, excluded: Collection[int]) -> Brokers:
    return tuple(broker for broker in brokers if broker not in excluded)


def _topic_throttle(moves: Mapping[int, _Move]) -> TopicThrottle:
    return TopicThrottle(
        _as_list((number, b) for number, move in moves.items() for b in move.sources),
        _as_list((number, b) for number, move in moves.items() for b in move.destinations),
    )


def _as_list(replicas: Iterator[tuple[int, int]]) -> str:
    """Join entries in the order of their texts, as Kafka's tool does."""
    return ",".join(sorted({throttled_entry(*replica) for replica in replicas}))
