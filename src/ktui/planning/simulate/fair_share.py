"""How copies share what leaders send and what brokers take in: max-min fair, as networks do."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Protocol

from ktui.cluster.partition import TopicPartition

Pair = tuple[int, int]
"""Who leads, and who copies from it."""


class Rooms(Protocol):
    """What brokers can do, in bytes a second."""

    def sends(self, leader: int) -> float:
        """Tell the most that a broker sends to all that copy from it; infinite where unknown."""

    def takes(self, broker: int, at_once: int) -> float:
        """Tell the most that a broker takes in while it copies so many replicas."""


class Copying(Protocol):
    """The replicas that are being copied, and how fast."""

    @property
    def next_end_s(self) -> float:
        """When the next will have been copied, if no other comes."""

    def add(self, tp: TopicPartition, pair: Pair, size: float, at_s: float) -> None:
        """Begin to copy a replica."""

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Give whoever has been copied by then, when, and onto which broker; each once."""


def shared(copies: Mapping[Pair, int], rooms: Rooms) -> dict[Pair, float]:
    """Give the bytes a second of each single copy of a pair.

    No copy can get more without one that has no more than it getting less (progressive filling).

    Args:
        copies: how many there are of each pair, at least one.
        rooms: what limits them.
    """
    users: dict[tuple[bool, int], list[Pair]] = {}
    for pair in copies:
        users.setdefault((False, pair[0]), []).append(pair)
        users.setdefault((True, pair[1]), []).append(pair)
    count = {side: sum(copies[pair] for pair in pairs) for side, pairs in users.items()}
    room = {
        (into, broker): rooms.takes(broker, n) if into else rooms.sends(broker)
        for (into, broker), n in count.items()
    }
    rates: dict[Pair, float] = {}
    while count:
        tightest = min(count, key=lambda side: room[side] / count[side])
        rate = room[tightest] / count[tightest]
        for pair in users[tightest]:
            if pair not in rates:
                rates[pair] = max(1.0, rate)
                for side in ((False, pair[0]), (True, pair[1])):
                    room[side] = max(0.0, room[side] - rate * copies[pair])
                    count[side] -= copies[pair]
        count = {side: n for side, n in count.items() if n}
    return rates


class _Copies:
    """Those of one pair. Virtual time is the bytes that each has got that was there throughout."""

    def __init__(self) -> None:
        self.virtual = 0.0
        self.rate = 0.0
        self.ends: list[tuple[float, TopicPartition]] = []

    @property
    def left_s(self) -> float:
        return max(0.0, self.ends[0][0] - self.virtual) / self.rate


class Shared:
    """All copies that are under way, on values.

    Attributes:
        next_end_s: when the next of them will have been copied, if no other comes.
    """

    def __init__(self, rooms: Rooms) -> None:
        self.next_end_s = inf
        self._rooms = rooms
        self._at_s = 0.0
        self._of: dict[Pair, _Copies] = {}
        self._stale = False

    def add(self, tp: TopicPartition, pair: Pair, size: float, at_s: float) -> None:
        """Begin to copy a replica; whatever has ended by then has been taken by `ended`."""
        self._pass(at_s)
        copies = self._of.setdefault(pair, _Copies())
        heapq.heappush(copies.ends, (copies.virtual + size, tp))
        self._share()

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Give whoever has been copied by then, when, and onto which broker; each once."""
        ended = []
        while self.next_end_s <= by_s:
            end_s = self.next_end_s
            pair = min(self._of, key=lambda pair: self._of[pair].left_s)
            self._pass(end_s)
            copies = self._of[pair]
            copies.virtual, tp = heapq.heappop(copies.ends)
            ended.append((end_s, tp, pair[1]))
            if not copies.ends:
                del self._of[pair]
            self._share()
        return ended

    def _pass(self, at_s: float) -> None:
        for copies in self._of.values():
            copies.virtual += (at_s - self._at_s) * copies.rate
        self._at_s = at_s

    def _share(self) -> None:
        rates = shared(Counter({pair: len(of.ends) for pair, of in self._of.items()}), self._rooms)
        for pair, copies in self._of.items():
            copies.rate = rates[pair]
        lefts = (copies.left_s for copies in self._of.values())
        self.next_end_s = self._at_s + min(lefts, default=inf)


class Inbound:
    """The replicas that one broker is adding.

    Its virtual time is the bytes that a replica would have got that had been there from the
    start, so that whoever comes at v with s bytes to copy ends at v + s, whoever else comes.

    Args:
        bytes_s: what the broker takes in, in bytes a second, with so many at once.

    Attributes:
        next_end_s: when the next of them will have been copied, if no other comes.
    """

    def __init__(self, bytes_s: Callable[[int], float]) -> None:
        self.next_end_s = inf
        self._bytes_s = bytes_s
        self._byte_s = inf
        """What a byte of each takes, as many as there are."""
        self._at_s = 0.0
        self._virtual = 0.0
        self._ends: list[tuple[float, TopicPartition]] = []

    def add(self, tp: TopicPartition, size: float, at_s: float) -> None:
        """Begin to copy a replica; whatever has ended by then has been taken by `ended`."""
        if self._ends:
            self._virtual += (at_s - self._at_s) / self._byte_s
        self._at_s = at_s
        heapq.heappush(self._ends, (self._virtual + size, tp))
        self._foresee()

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition]]:
        """Give whoever has been copied by then, and when; each of them once."""
        ended = []
        while self.next_end_s <= by_s:
            self._at_s = self.next_end_s
            self._virtual, tp = heapq.heappop(self._ends)
            ended.append((self._at_s, tp))
            self._foresee()
        return ended

    def _foresee(self) -> None:
        if not self._ends:
            self.next_end_s = inf
            return
        left = self._ends[0][0] - self._virtual
        self._byte_s = len(self._ends) / self._bytes_s(len(self._ends))
        self.next_end_s = self._at_s + left * self._byte_s


class Inbounds:
    """The replicas that all brokers are adding, each as fast as it takes them in.

    Args:
        bytes_s: what a broker takes in, in bytes a second, with so many at once.
    """

    def __init__(self, bytes_s: Callable[[int, int], float]) -> None:
        self._bytes_s = bytes_s
        self._of: dict[int, Inbound] = {}

    @property
    def next_end_s(self) -> float:
        """When the next replica will have been copied, if no other comes; else infinity."""
        return min((inbound.next_end_s for inbound in self._of.values()), default=inf)

    def add(self, tp: TopicPartition, pair: Pair, size: float, at_s: float) -> None:
        """Begin to copy a replica; whatever has ended by then has been taken by `ended`."""
        broker = pair[1]
        if broker not in self._of:
            self._of[broker] = Inbound(partial(self._bytes_s, broker))
        self._of[broker].add(tp, size, at_s)

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Give whoever has been copied by then, when, and onto which broker; each once."""
        return [
            (end_s, tp, broker)
            for broker, inbound in self._of.items()
            if inbound.next_end_s <= by_s
            for end_s, tp in inbound.ended(by_s)
        ]
