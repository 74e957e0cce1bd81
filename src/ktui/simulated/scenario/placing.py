"""Placement of replicas on brokers, for topics that do not list their replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

Racks = Mapping[int, str | None]
"""Every broker of a cluster with its rack, or None if the rack is unknown."""


def alternate_racks(racks: Racks) -> list[int]:
    """Order brokers so that neighbours are in different racks, as long as racks last."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    turns = zip_longest(*by_rack.values())
    return [broker for turn in turns for broker in turn if broker is not None]


def place_replicas(
    partitions: int, factor: int, brokers: Sequence[int], *, first: int = 0, shifting: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Assign replicas to the brokers in turn, starting with partition 0 at the index `first`.

    Args:
        partitions: the number of partitions.
        factor: replicas of each partition, at most the number of brokers.
        brokers: the brokers, in the order of assignment.
        first: the index in `brokers` of partition 0's leader.
        shifting: whether the followers move one place further from their leader with each round.
            Kafka does so, and a broker then shares its partitions with all others. Without
            it neighbours in `brokers` stay together.
    """
    count = len(brokers)
    return tuple(
        tuple(
            brokers[(first + number + gap) % count]
            for gap in _gaps(factor, count, number // count if shifting else 0)
        )
        for number in range(partitions)
    )


def _gaps(factor: int, count: int, shift: int) -> list[int]:
    """Return the distance in `brokers` of each replica of a partition from its leader."""
    return [0, *(1 + (shift + place) % (count - 1) for place in range(factor - 1))]
