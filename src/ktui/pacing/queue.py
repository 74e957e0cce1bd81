"""The queue of partitions that wait to begin. Finding the next does not scan those who wait."""

from __future__ import annotations

import bisect
import enum
import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec

from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.pacing.limits import COUNTED, InternalOrder, Order
from ktui.pacing.situation import Demand, Move, Place, WantedPartition


class Precedence(enum.IntEnum):
    """Who goes before whom, whatever the order."""

    CALLED_OFF = 0  # an operator has called the partition off, or has given it another target
    URGENT = 1  # too few of its replicas are in sync, and urgent partitions go first
    INTERNAL_FIRST = 2  # it is of one of Kafka's own topics, and these go before all others
    USUAL = 3
    INTERNAL_LAST = 4  # the same, and these begin once no other partition waits to begin


_USUAL = Precedence.USUAL
_LONG_FIRST, _SIZE_DESC, _SIZE_ASC = Order.LONG_FIRST, Order.SIZE_DESC, Order.SIZE_ASC
"""Bare, as ranks are asked for often: to look a member up in its enum takes ten times as long."""


def usual_precedence(topic: str, internal: InternalOrder) -> Precedence:
    """Return the precedence of a partition that is neither called off nor urgent."""
    if topic not in INTERNAL_TOPICS or internal is InternalOrder.NONE:
        return _USUAL
    first = internal is InternalOrder.FIRST
    return Precedence.INTERNAL_FIRST if first else Precedence.INTERNAL_LAST


Rank = tuple[Precedence, int, str, int]
"""A sort key: precedence, bytes or place in the plan, topic and number."""


def first_by(order: Order, *, size: int, ahead: int) -> int:
    """Return the part of a rank by which an order sorts before topic and number; sizes in bytes."""
    if order is _LONG_FIRST:  # not by a dict: the hash of an enum is Python code
        return -ahead
    if order is _SIZE_DESC:
        return -size
    return size if order is _SIZE_ASC else 0


QueuePlace = tuple[Rank, TopicPartition]

_FEW = 64
"""Up to this many entries are inserted or removed one by one; for more, the list is rebuilt."""

Demands = tuple[Demand, ...]


class Queue:
    """Partitions in order, in the group of each demand of a first step that they may take."""

    def __init__(self) -> None:
        self._places: dict[TopicPartition, tuple[Demands, Rank]] = {}
        self._order: list[QueuePlace] = []
        self._kinds: dict[Demand, list[QueuePlace]] = {}
        self._new: dict[Demand, list[QueuePlace]] = {}
        """Partitions added since the last read; sorted in together at the next."""
        self._tree: dict[Demand | None, dict[Demand, None]] = {}
        """Demands, each below its own `less`, so that all demands on full brokers are skipped."""

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._places

    def put(self, tp: TopicPartition, rank: Rank, demands: Demands) -> None:
        before = self._places.get(tp)
        if before == (demands, rank):
            return
        if before is not None:
            self.take([tp])
        self._places[tp] = (demands, rank)
        for demand in demands:
            if demand not in self._kinds:
                self._kinds[demand] = []
                self._grow(demand)
            self._new.setdefault(demand, []).append((rank, tp))

    def take(self, partitions: Collection[TopicPartition]) -> None:
        removed: dict[Demand, list[QueuePlace]] = {}
        left_order: list[QueuePlace] = []
        for tp in partitions:
            if tp in self._places:
                demands, rank = self._places.pop(tp)
                left_order.append((rank, tp))
                for demand in demands:
                    removed.setdefault(demand, []).append((rank, tp))
        if not left_order:
            return
        if removed:
            self._settle()
        self._order = _without(self._order, left_order)
        for demand, places in removed.items():
            left = _without(self._kinds[demand], places)
            if left:
                self._kinds[demand] = left
            else:
                del self._kinds[demand]
                self._prune(demand)

    def first(self, count: int, *, after: int = 0) -> list[TopicPartition]:
        """Return the first `count` waiting partitions after some others, whatever their demand."""
        self._settle()
        return [tp for _, tp in self._order[after : after + count]]

    def walk(self, fits: Callable[[Demand], bool]) -> Iterator[TopicPartition]:
        """Iterate over the partitions of which a step fits, in order; `fits` only turns to no."""
        self._settle()
        kinds = sorted((self._kinds[demand][0], n, demand) for n, demand in self._fitting(fits))
        return self._merged(kinds, fits)

    def _settle(self) -> None:
        if self._new:
            new = dict.fromkeys(place for places in self._new.values() for place in places)
            _insert(self._order, [*new])
            for demand, places in self._new.items():
                _insert(self._kinds[demand], places)
            self._new = {}

    def _fitting(self, fits: Callable[[Demand], bool]) -> Iterator[tuple[int, Demand]]:
        number = 0
        branches = [*self._tree.get(None, ())]
        while branches:
            demand = branches.pop()
            if fits(demand):
                branches += self._tree.get(demand, ())
                if demand in self._kinds:
                    number += 1
                    yield number, demand

    def _grow(self, demand: Demand) -> None:
        above = demand.less
        beside = self._tree.setdefault(above, {})
        beside[demand] = None
        if above is not None and len(beside) == 1:
            self._grow(above)

    def _prune(self, demand: Demand) -> None:
        if demand in self._tree or demand in self._kinds:
            return  # demands below it are left, or partitions of its own
        above = demand.less
        beside = self._tree[above]
        del beside[demand]
        if not beside:
            del self._tree[above]
            if above is not None:
                self._prune(above)

    def _merged(
        self, heads: list[tuple[QueuePlace, int, Demand]], fits: Callable[[Demand], bool]
    ) -> Iterator[TopicPartition]:
        """Merge the demands' partitions by rank; `heads` comes sorted, and so is a heap."""
        reached = dict.fromkeys((demand for _, _, demand in heads), 0)
        last = None
        while heads:
            (_, tp), number, demand = heads[0]
            if not fits(demand):
                heapq.heappop(heads)
                continue
            if tp != last:
                yield tp
            last = tp
            reached[demand] += 1
            places = self._kinds[demand]
            if reached[demand] < len(places):
                heapq.heapreplace(heads, (places[reached[demand]], number, demand))
            else:
                heapq.heappop(heads)


def _insert(places: list[QueuePlace], new: list[QueuePlace]) -> None:
    if len(new) > _FEW:
        places += new
        places.sort()
        return
    for place in new:
        bisect.insort(places, place)


def _without(places: list[QueuePlace], removed: list[QueuePlace]) -> list[QueuePlace]:
    if len(removed) > _FEW:
        leaving = set(removed)
        return [place for place in places if place not in leaving]
    for place in removed:
        del places[bisect.bisect_left(places, place)]
    return places


PartitionT = TypeVar("PartitionT", bound=msgspec.Struct)

_TWENTIETH = 20


class Copies(NamedTuple):
    """What is copied of one partition on the way to its target."""

    leader: int
    receivers: tuple[int, ...]
    size: int

    @property
    def bytes(self) -> int:
        """What the leader sends in all."""
        return self.size * len(self.receivers)


def bytes_ahead(partitions: Sequence[Copies]) -> list[int]:
    """Return by how many bytes each goes first: those of over a twentieth of the busiest broker."""
    least = max(_bytes_by_broker(partitions).values(), default=0) / _TWENTIETH
    return [each.bytes if each.bytes > least else 0 for each in partitions]


def copies_to(target: Brokers, replicas: Brokers, leader: int | None, size: int) -> Copies:
    """Return what is copied of a partition; without a leader, by its preferred one."""
    receivers = tuple(broker for broker in target if broker not in replicas)
    return Copies(replicas[0] if leader is None else leader, receivers, size)


def with_bytes_ahead(
    partitions: Sequence[PartitionT], copies: Callable[[PartitionT], Copies]
) -> list[PartitionT]:
    """Return partitions, each with the bytes by which it goes ahead in its field `ahead`."""
    return [
        each if not ahead else msgspec.structs.replace(each, ahead=ahead)
        for each, ahead in zip(partitions, bytes_ahead(list(map(copies, partitions))), strict=True)
    ]


def put_long_first(wanted: Sequence[WantedPartition]) -> list[WantedPartition]:
    """Return partitions that have not begun, with the bytes by which each goes ahead."""
    return with_bytes_ahead(wanted, _copies)


def _copies(wanted: WantedPartition) -> Copies:
    now = wanted.situation
    return copies_to(now.target, now.replicas, now.leader, wanted.size)


def _bytes_by_broker(partitions: Iterable[Copies]) -> Counter[int]:
    moved: Counter[int] = Counter()
    for each in partitions:
        moved[each.leader] += each.bytes
        for broker in each.receivers:
            moved[broker] += each.size
    return moved


MINUTE_S = 60.0

_COSTS = tuple((field, limit.costs) for field, limit in COUNTED if limit.costs is not None)


@lru_cache(4_096)  # a step is counted twice, and in each forecast of its run again
def _costs_of(demand: Demand) -> tuple[tuple[str, Place, int], ...]:
    return tuple((field, place, many) for field, costs in _COSTS for place, many in costs(demand))


class LastMinute(msgspec.Struct):
    """Counts what happened within the last minute, by any clock in seconds, even one set back."""

    happened: deque[tuple[float, int]] = msgspec.field(default_factory=deque)
    """The times, each with how often it happened then; those of the last minute at least."""

    def add(self, at_s: float, count: int = 1) -> None:
        while self.happened and not _recent(self.happened[0][0], at_s):
            self.happened.popleft()
        if self.happened and self.happened[-1][0] == at_s:
            count += self.happened.pop()[1]
        self.happened.append((at_s, count))

    def count(self, now_s: float) -> int:
        return sum(count for at_s, count in self.happened if _recent(at_s, now_s))

    def next_end_s(self, now_s: float) -> float | None:
        ends = (at_s + MINUTE_S for at_s, _ in self.happened if _recent(at_s, now_s))
        return min(ends, default=None)


def _recent(at_s: float, now_s: float) -> bool:
    return abs(now_s - at_s) < MINUTE_S


class Usage(msgspec.Struct):
    """How much of each limit is in use, by all partitions, by urgent ones alone, or by others."""

    places: int = 0
    steps_in_places: int = 0
    coordinators_moving: int = 0
    """Steps that move the leader of an internal partition."""
    steps_adding: int = 0
    alone: int = 0
    taken: dict[str, Counter[Place]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """What the steps take of each limit, by its field and by where it is counted."""

    def count_place(self, move: Move, sign: int = 1) -> None:
        self.steps_in_places += sign * move.holds_place
        self.alone += sign * move.alone

    def count(self, demand: Demand, sign: int = 1) -> None:
        """Count what a step in flight takes; with a sign of -1, one that is over."""
        self.coordinators_moving += sign * demand.moves_coordinator
        self.steps_adding += sign * bool(demand.adds)
        for field, place, many in _costs_of(demand):
            self.taken[field][place] += sign * many

    @property
    def adding(self) -> int:
        return self.taken["replica_movements"][None]
