"""Which brokers hold which partitions of a topic that does not say so itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

Racks = Mapping[int, str | None]
"""Every broker of a cluster, and the rack in which it stands if that is known."""


def in_turns_of_racks(racks: Racks) -> list[int]:
    """Order brokers so that neighbours stand in different racks, as far as racks go round."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    turns = zip_longest(*by_rack.values())
    return [broker for turn in turns for broker in turn if broker is not None]


def spread(
    partitions: int, factor: int, brokers: Sequence[int], *, first: int = 0, shifting: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Deal replicas over the brokers in turn; partition 0 begins at the place `first`.

    Args:
        partitions: how many.
        factor: replicas of each, at most as many as brokers.
        brokers: in the order of dealing.
        first: the place of partition 0.
        shifting: with each round the followers stand one place further from their leader, as
            Kafka has it, so that a broker shares its partitions with all others; else neighbours
            in `brokers` stay together.
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
    """How far each replica of a partition stands from its leader."""
    return [0, *(1 + (shift + place) % (count - 1) for place in range(factor - 1))]
