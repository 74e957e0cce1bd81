"""Copies that share what their broker takes in fairly, and when each of them ends."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Protocol

from ktui.cluster.partition import TopicPartition

Pair = tuple[int, int]
"""A leader, and the broker that copies from it."""


class CopiesInFlight(Protocol):
    """The replicas being copied, and their rates."""

    @property
    def next_end_s(self) -> float:
        """The second at which the next copy ends if none is added."""

    def add(self, tp: TopicPartition, pair: Pair, size: float, at_s: float) -> None:
        """Begin to copy a replica of `size` bytes."""

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Return copies that ended by then: second, partition, broker; each copy once."""


class BrokerIntake:
    """The replicas that one broker is adding.

    The broker's virtual time is the bytes received by a replica present from the start. So a
    replica of s bytes added at virtual time v ends at v + s, whatever else is added.

    Args:
        bytes_s: returns the broker's intake in bytes a second, for a number of replicas at once.

    Attributes:
        next_end_s: the second at which the next copy ends if none is added.
    """

    def __init__(self, bytes_s: Callable[[int], float]) -> None:
        self.next_end_s = inf
        self._bytes_s = bytes_s
        self._byte_s = inf
        """Seconds for one byte of each replica, with as many replicas as there are now."""
        self._at_s = 0.0
        self._virtual = 0.0
        self._ends: list[tuple[float, TopicPartition]] = []

    def add(self, tp: TopicPartition, size: float, at_s: float) -> None:
        """Begin to copy a replica. The caller has already collected ended copies with `ended`."""
        self._pass(at_s)
        heapq.heappush(self._ends, (self._virtual + size, tp))
        self._update_next_end()

    def rate_changed(self, at_s: float) -> None:
        """Go on with another rate. The caller has already collected ended copies with `ended`."""
        self._pass(at_s)
        self._update_next_end()

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition]]:
        """Return copies that ended by then: second and partition; each copy once."""
        ended = []
        while self.next_end_s <= by_s:
            self._at_s = self.next_end_s
            self._virtual, tp = heapq.heappop(self._ends)
            ended.append((self._at_s, tp))
            self._update_next_end()
        return ended

    def _pass(self, at_s: float) -> None:
        if self._ends:
            self._virtual += (at_s - self._at_s) / self._byte_s
        self._at_s = at_s

    def _update_next_end(self) -> None:
        if not self._ends:
            self.next_end_s = inf
            return
        left = self._ends[0][0] - self._virtual
        self._byte_s = len(self._ends) / self._bytes_s(len(self._ends))
        self.next_end_s = self._at_s + left * self._byte_s


class BrokerIntakes:
    """The replicas that all brokers are adding, each limited by its own broker's intake.

    Args:
        bytes_s: returns a broker's intake in bytes a second, for a number of replicas at once.
    """

    def __init__(self, bytes_s: Callable[[int, int], float]) -> None:
        self._bytes_s = bytes_s
        self._of: dict[int, BrokerIntake] = {}

    @property
    def next_end_s(self) -> float:
        """The second at which the next copy ends if none is added; infinity without copies."""
        return min((inbound.next_end_s for inbound in self._of.values()), default=inf)

    def add(self, tp: TopicPartition, pair: Pair, size: float, at_s: float) -> None:
        """Begin to copy a replica. The caller has already collected ended copies with `ended`."""
        broker = pair[1]
        if broker not in self._of:
            self._of[broker] = BrokerIntake(partial(self._bytes_s, broker))
        self._of[broker].add(tp, size, at_s)

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Return copies that ended by then: second, partition, broker; each copy once."""
        return [
            (end_s, tp, broker)
            for broker, inbound in self._of.items()
            if inbound.next_end_s <= by_s
            for end_s, tp in inbound.ended(by_s)
        ]

    def rates_changed(self, at_s: float) -> None:
        """Go on with other rates. The caller has already collected ended copies with `ended`."""
        for inbound in self._of.values():
            inbound.rate_changed(at_s)
