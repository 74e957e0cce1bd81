"""Placement of replicas in stripes, as Kafka places those of new topics (StripedReplicaPlacer).

Leaders go round the racks, and from there the followers of each partition; brokers take turns
within racks. The present placement has no influence.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition

T = TypeVar("T")
Draw = Callable[[int], int]  # draws a random number from 0 to below its argument
BrokerRacks = Mapping[int, str | None]
_DRAW: Draw = random.Random().randrange  # noqa: S311 - no secret


class PlacementProblem(Exception):
    """Replicas cannot be placed. The message is that of kafka-reassign-partitions."""


class TopicSize(msgspec.Struct, frozen=True):
    """What the placement of a topic depends on."""

    partitions: int
    replication_factor: int


def topic_sizes(current: Mapping[TopicPartition, Brokers]) -> dict[str, TopicSize]:
    """Return the size of each topic: of its partitions, the lowest decides the factor."""
    counts: dict[str, int] = {}
    factors: dict[str, int] = {}
    for tp in sorted(current):
        counts[tp.topic] = counts.get(tp.topic, 0) + 1
        factors.setdefault(tp.topic, len(current[tp]))
    return {topic: TopicSize(count, factors[topic]) for topic, count in counts.items()}


def usable_racks(brokers: BrokerRacks, *, rack_aware: bool) -> dict[int, str | None]:
    """Return the racks to place by, or PlacementProblem if only some brokers have one."""
    if not rack_aware:
        return dict.fromkeys(brokers)
    if None in brokers.values() and any(rack is not None for rack in brokers.values()):
        raise PlacementProblem(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    return dict(brokers)


def place_topics(
    topics: Mapping[str, TopicSize], brokers: BrokerRacks, draw: Draw = _DRAW
) -> dict[TopicPartition, Brokers]:
    """Place each topic's replicas, racks drawing in the order of `brokers`; or PlacementProblem."""
    placed: dict[TopicPartition, Brokers] = {}
    for topic, size in topics.items():
        _check(size.replication_factor, len(brokers))
        stripes = _Stripes(brokers, draw)
        for partition in range(size.partitions):
            placed[TopicPartition(topic, partition)] = stripes.next(size.replication_factor)
    return placed


class _Rack:
    """The brokers of a rack, which take turns; the turn moves on from partition to partition.

    As in Kafka, epochs count from 0 again after a reshuffle, and a rack of one broker that was last
    used in the same epoch of the round before is passed over once.
    """

    def __init__(self, brokers: Iterable[int], draw: Draw) -> None:
        self.brokers = sorted(brokers)
        self._offset = draw(len(self.brokers))
        self._epoch = 0
        self._taken = 0

    def next(self, epoch: int) -> int | None:
        count = len(self.brokers)
        if self._epoch != epoch:
            self._epoch = epoch
            self._taken = 0
            self._offset = (self._offset + 1) % count
        if self._taken == count:
            return None
        self._taken += 1
        return self.brokers[(self._taken - 1 + self._offset) % count]


class _Stripes:
    def __init__(self, brokers: BrokerRacks, draw: Draw) -> None:
        members: dict[str | None, list[int]] = {}
        for broker, rack in brokers.items():
            members.setdefault(rack, []).append(broker)
        self._racks = {rack: _Rack(ids, draw) for rack, ids in members.items()}
        self._order = sorted(self._racks, key=lambda rack: (rack is not None, rack or ""))
        self._draw = draw
        self._offset = draw(len(self._order))
        self._epoch = 0
        self._brokers = len(brokers)

    def next(self, replication_factor: int) -> Brokers:
        if self._epoch == self._brokers > 1:
            self._reshuffle()
        self._offset %= len(self._order)
        place = self._offset
        while (leader := self._take(place)) is None:
            place += 1
        replicas = (leader, *self._followers(replication_factor - 1, self._wrapped(place)))
        self._epoch += 1
        self._offset += 1
        return replicas

    def _followers(self, count: int, leader_place: int) -> list[int]:
        found: list[int] = []
        place, skip = self._offset, True
        while len(found) < count:
            if skip and self._wrapped(place) == leader_place:
                skip = False
            elif (broker := self._take(place)) is not None:
                found.append(broker)
            place += 1
        return found

    def _take(self, place: int) -> int | None:
        return self._racks[self._order[self._wrapped(place)]].next(self._epoch)

    def _wrapped(self, place: int) -> int:
        return place % len(self._order)

    def _reshuffle(self) -> None:
        """Change the order of racks and brokers, once each broker has begun a stripe."""
        _shuffle(self._order, self._draw)
        for rack in self._racks.values():
            _shuffle(rack.brokers, self._draw)
        self._epoch = 0


def _check(replication_factor: int, brokers: int) -> None:
    if replication_factor <= 0:
        raise PlacementProblem(
            f"Invalid replication factor {replication_factor}: the replication factor must be "
            "positive."
        )
    if not brokers:
        raise PlacementProblem(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replication_factor > brokers:
        raise PlacementProblem(
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {brokers} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )


def _shuffle(items: list[T], draw: Draw) -> None:
    for size in range(len(items), 1, -1):
        place = draw(size)
        items[size - 1], items[place] = items[place], items[size - 1]
