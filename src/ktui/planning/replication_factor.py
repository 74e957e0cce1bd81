"""Which replicas come and go: for another replication factor, and in stripes as Kafka places.

For another factor no other replica moves. Those that stay keep their order, with the preferred
leader first. In stripes, as Kafka places those of new topics (StripedReplicaPlacer), leaders go
round the racks, and from there the followers of each partition; brokers take turns within racks.
The present placement has no influence.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition


class FactorProblem(Exception):
    """Too few brokers can have replicas for the replication factor."""


class PresentReplicas(msgspec.Struct, frozen=True):
    """The replicas of a partition, preferred leader first; none for a partition to be created."""

    brokers: Brokers = ()
    behind: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()  # on brokers that are down, or a failed log dir


class BrokerPool(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers of a cluster, and how many replicas they have."""

    online: frozenset[int]
    cordoned: frozenset[int] = frozenset()  # those whose log dirs are all cordoned
    refuses_cordoned: bool = False  # whether no target may name them, from Kafka 4.4 on
    racks: Mapping[int, str | None] = {}
    replicas: Mapping[int, int] = {}

    @property
    def targets(self) -> list[int]:
        return sorted(self.online - self.cordoned)

    @property
    def refused(self) -> frozenset[int]:
        """The brokers that no target may name."""
        return self.cordoned if self.refuses_cordoned else frozenset()

    def racks_of(self, brokers: Iterable[int]) -> set[str | None]:
        """Return the racks that brokers are in; None stands for all that are unknown."""
        return {self.racks.get(broker) for broker in brokers}

    def spread(self, brokers: Iterable[int]) -> int:
        return len(self.racks_of(brokers) - {None})


def present_replicas(state: PartitionState) -> PresentReplicas:
    """Return the replicas of a partition; while it is reassigned, those that it is to have."""
    brokers = state.target
    dead = frozenset(brokers) & frozenset(state.offline)
    return PresentReplicas(brokers, frozenset(brokers) - dead - frozenset(state.isr), dead)


def change_replication_factor(
    partitions: Mapping[TopicPartition, PresentReplicas], factor: int, pool: BrokerPool
) -> dict[TopicPartition, Brokers]:
    """Return the target replicas of all partitions of topics, `factor` each, or FactorProblem.

    Surplus replicas go in this order: dead ones, live ones that are behind, those that share a
    rack; the last in the list before the others. A live preferred leader stays. New replicas go to
    racks that the partition lacks, then to the brokers with the fewest replicas of the topic, then
    of the cluster. Where racks allow it, no broker gets two more replicas of a topic than another.
    """
    held = Counter(pool.replicas)
    targets: dict[TopicPartition, Brokers] = {}
    topics: dict[str, dict[TopicPartition, PresentReplicas]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, {})[tp] = partitions[tp]
    for present in topics.values():
        kept = {tp: _kept(replicas, factor, pool) for tp, replicas in present.items()}
        for tp, replicas in present.items():
            held.subtract({*replicas.brokers} - {*kept[tp]})
        growth = _Growth(kept, factor, pool, held)
        growth.grow()
        growth.level()
        targets |= growth.targets()
    return targets


def _kept(present: PresentReplicas, factor: int, pool: BrokerPool) -> Brokers:
    if len(present.brokers) <= factor:
        return present.brokers
    left, kept = list(present.brokers), list[int]()
    while left and len(kept) < factor:
        best = min(
            left,
            key=lambda broker: (
                broker in present.dead,
                broker != present.brokers[0],
                broker in present.behind,
                pool.spread([*kept, broker]) == pool.spread(kept),
                present.brokers.index(broker),
            ),
        )
        left.remove(best)
        kept.append(best)
    return tuple(broker for broker in present.brokers if broker in kept)


_Shift = tuple[TopicPartition, int, int]


class _Growth:
    """The new replicas of one topic; updates `held`, the replicas of each broker in the cluster."""

    def __init__(
        self,
        kept: Mapping[TopicPartition, Brokers],
        factor: int,
        pool: BrokerPool,
        held: Counter[int],
    ) -> None:
        self._kept = kept
        self._factor = factor
        self._pool = pool
        self._held = held
        self._targets = pool.targets
        self._replicas = {tp: list(brokers) for tp, brokers in kept.items()}
        self._load = Counter(broker for brokers in kept.values() for broker in brokers)

    def grow(self) -> None:
        for tp, replicas in self._replicas.items():
            if len(replicas) < self._factor > len(self._pool.online):
                raise FactorProblem(self._problem(tp, len(self._pool.online), "online"))
            while len(replicas) < self._factor:
                self._add(replicas, self._next(tp, replicas))

    def _next(self, tp: TopicPartition, replicas: list[int]) -> int:
        candidates = [broker for broker in self._targets if broker not in replicas]
        if not candidates:
            raise FactorProblem(self._problem(tp, len(replicas), "usable for it"))
        racks, known = self._pool.racks, {*self._pool.racks_of(replicas), None}
        load, held = self._load, self._held
        return min(
            candidates,
            key=lambda broker: (racks.get(broker) in known, load[broker], held[broker], broker),
        )

    def _problem(self, tp: TopicPartition, brokers: int, how: str) -> str:
        are = "broker is" if brokers == 1 else "brokers are"
        cordoned = len(self._pool.online & self._pool.cordoned)
        besides = f", not counting {cordoned:,} with cordoned log dirs" if cordoned else ""
        return f"{tp} cannot have {self._factor:,} replicas: {brokers:,} {are} {how}{besides}"

    def _add(self, replicas: list[int], broker: int) -> None:
        replicas.append(broker)
        self._load[broker] += 1
        self._held[broker] += 1

    def level(self) -> None:
        while path := self._path():
            for tp, source, destination in path:
                replicas = self._replicas[tp]
                replicas[replicas.index(source)] = destination
                for load in (self._load, self._held):
                    load[source] -= 1
                    load[destination] += 1

    def _path(self) -> list[_Shift]:
        """Return the shortest chain of shifts to a broker with two replicas less; or none."""
        loads = [self._load[broker] for broker in self._targets]
        if not loads or max(loads) - min(loads) <= 1:
            return []
        new: dict[int, list[TopicPartition]] = {}
        for tp, replicas in self._replicas.items():
            for broker in replicas[len(self._kept[tp]) :]:
                new.setdefault(broker, []).append(tp)
        reached: set[int] = set()
        for start in sorted(new, key=lambda broker: (-self._load[broker], broker)):
            if start not in reached and (path := self._path_from(start, new, reached)):
                return path
        return []

    def _path_from(
        self, start: int, new: Mapping[int, list[TopicPartition]], reached: set[int]
    ) -> list[_Shift]:
        """Search from one broker. What it has reached without success, no emptier one need."""
        came_by: dict[int, _Shift] = {}
        reached.add(start)
        queue = [start]
        for source in queue:
            for shift in self._shifts(source, new.get(source, ())):
                destination = shift[2]
                if destination in reached:
                    continue
                reached.add(destination)
                came_by[destination] = shift
                queue.append(destination)
                if self._load[destination] <= self._load[start] - 2:
                    return _traced(came_by, destination, start)
        return []

    def _shifts(self, source: int, partitions: Iterable[TopicPartition]) -> Iterator[_Shift]:
        """Yield the shifts of new replicas from a broker that lose no rack."""
        for tp in partitions:
            replicas = self._replicas[tp]
            others = [broker for broker in replicas if broker != source]
            spread = self._pool.spread(replicas)
            for broker in self._targets:
                if broker not in replicas and self._pool.spread([*others, broker]) == spread:
                    yield tp, source, broker

    def targets(self) -> dict[TopicPartition, Brokers]:
        """Return the replicas of each partition; those of created ones take turns in leading."""
        leads = Counter(brokers[0] for brokers in self._kept.values() if brokers)
        targets = {}
        for tp, replicas in self._replicas.items():
            if self._kept[tp]:
                targets[tp] = tuple(replicas)
            else:
                leader = min(replicas, key=lambda broker: (leads[broker], replicas.index(broker)))
                leads[leader] += 1
                targets[tp] = (leader, *(broker for broker in replicas if broker != leader))
        return targets


def _traced(came_by: Mapping[int, _Shift], destination: int, start: int) -> list[_Shift]:
    """Return the chain of shifts, the last one first: so each broker is free when it is needed."""
    path = []
    while destination != start:
        path.append(came_by[destination])
        destination = came_by[destination][1]
    return path


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
