"""What brokers copy at a time, on values: each its own rate, shared alike by all it is adding."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from math import inf

from ktui.cluster.partition import TopicPartition
from ktui.planning.sharing import Pair


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
