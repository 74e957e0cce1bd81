"""The least time of copies between brokers that each take part in one copy at a time.

Two copies that share a broker do not overlap. So of an odd number n of brokers at most (n - 1) / 2
pairs copy at a time, whatever the order: what three brokers copy among each other goes one by one,
though none of the three is busy all the time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, combinations

import msgspec

_TRIPLE = 3


class Exchange(msgspec.Struct, frozen=True):
    """What some brokers copy among each other, and the least seconds that this takes."""

    brokers: tuple[int, ...]
    seconds: float
    bytes: int


class BrokerPairs:
    """Add up what each pair of brokers has to copy in turn."""

    def __init__(self) -> None:
        self._seconds: defaultdict[frozenset[int], float] = defaultdict(float)
        self._bytes: Counter[frozenset[int]] = Counter()

    def add(self, sender: int, receiver: int, size: int, seconds: float) -> None:
        """Count a copy that no other copy of the two brokers overlaps.

        Args:
            sender: the leader.
            receiver: the broker that adds a replica.
            size: the bytes to copy.
            seconds: the least time in which the two take part in nothing else.
        """
        pair = frozenset((sender, receiver))
        self._seconds[pair] += seconds
        self._bytes[pair] += size

    def exchanges(self, above_s: float) -> Iterator[Exchange]:
        """Yield what takes longer than `above_s`: of three brokers, and of all, if they are odd."""
        everyone = tuple(sorted(set(chain.from_iterable(self._seconds))))
        chosen = self._triples(above_s)
        if len(everyone) > _TRIPLE and len(everyone) % 2:
            chosen = chain(chosen, [everyone])
        for brokers in chosen:
            found = self._among(brokers)
            if found.seconds > above_s:
                yield found

    def _triples(self, above_s: float) -> Iterator[tuple[int, ...]]:
        """Yield the triples that may take longer: one pair of them has a third or more of it."""
        neighbours = defaultdict[int, set[int]](set)
        for one, other in map(sorted, self._seconds):
            neighbours[one].add(other)
            neighbours[other].add(one)
        busy = [pair for pair, seconds in self._seconds.items() if _TRIPLE * seconds > above_s]
        triples = {
            frozenset((*pair, third))
            for pair in busy
            for third in set().union(*(neighbours[broker] for broker in pair)) - pair
        }
        yield from sorted(tuple(sorted(triple)) for triple in triples)

    def _among(self, brokers: tuple[int, ...]) -> Exchange:
        pairs = [frozenset(pair) for pair in combinations(brokers, 2)]
        seconds = sum(self._seconds.get(pair, 0.0) for pair in pairs) / (len(brokers) // 2)
        return Exchange(brokers, seconds, sum(self._bytes[pair] for pair in pairs))
