"""Copies that share the brokers at both of their ends, and when each of them ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from types import MappingProxyType

from ktui.cluster.partition import TopicPartition
from ktui.speed.copies_onto import CopiesOnto
from ktui.speed.fair_share import BrokerIntake, Pair

_SENDING = 0.5
"""What a copy takes of its leader, as a part of what it takes of the broker that receives it."""
HALF_AT = 1.0
"""With so many copies a broker takes in half of what it does with many, as `RateCurve` has it.

A single copy waits for its leader between fetches.
"""

NONE_BESIDE: Mapping[int, int] = MappingProxyType({})


def speedup(load: float) -> float:
    """Return how many times as much a broker takes in under some load as with a single copy."""
    return load * (1.0 + HALF_AT) / (load + HALF_AT)


def least_alone(copies: CopiesOnto) -> float:
    """Return the bytes that one copy by itself receives in the least time that some copies take.

    In each moment, what n copies receive and h times what the largest of them receives are together
    at most 1 + h times as much as one copy by itself would.
    """
    at_once = copies.bytes / speedup(copies.at_once)
    return max(at_once, (copies.bytes + HALF_AT * copies.longest) / (1.0 + HALF_AT))


class CopyLoad:
    """How many copies the brokers of a cluster have in flight.

    Args:
        is_free: whether a broker receives without a throttle. Copies that a throttle holds up
            leave their brokers time for others, so that they are no load.
        pairs: that of each copy.
    """

    def __init__(self, is_free: Callable[[int], bool], pairs: Iterable[Pair] = ()) -> None:
        self._is_free = is_free
        self._onto = Counter[int]()
        self._load = defaultdict[int, float](float)
        for pair in pairs:
            self.add(pair)

    def add(self, pair: Pair, copies: int = 1) -> None:
        """Add copies; less than 0 removes some that have ended."""
        leader, broker = pair
        self._onto[broker] += copies
        if self._is_free(broker):
            self._load[broker] += copies
            self._load[leader] += _SENDING * copies

    def onto(self, broker: int) -> int:
        """Return how many copies a broker receives."""
        return self._onto[broker]

    def slows(self, pair: Pair) -> float:
        """Return how many times as long a copy takes as it would by itself.

        The busier of its ends decides.
        """
        leader, broker = pair
        load = max(1.0, self._load[leader], self._load[broker])
        return load / speedup(load)


class CopiesOfBothEnds:
    """The replicas being copied, each at a rate that depends on what both of its ends copy.

    The rates are computed once for all that changes at a moment.

    Args:
        bytes_s: returns the rate of one copy in bytes a second, beside all that are in flight.
        load: these; none yet.
    """

    def __init__(self, bytes_s: Callable[[Pair, CopyLoad], float], load: CopyLoad) -> None:
        self._bytes_s = bytes_s
        self._load = load
        self._of: dict[Pair, BrokerIntake] = {}
        self._beside: dict[TopicPartition, Mapping[int, int]] = {}
        self._touching: defaultdict[int, list[Pair]] = defaultdict(list)
        """The pairs that a broker is one of."""
        self._changed: set[int] = set()
        """The brokers whose load has changed at `_at_s`."""
        self._at_s = 0.0
        self._next_end_s = inf

    @property
    def next_end_s(self) -> float:
        """The second at which the next copy ends if none is added; infinity without copies."""
        self._settle()
        return self._next_end_s

    def add(
        self,
        tp: TopicPartition,
        pair: Pair,
        size: float,
        at_s: float,
        beside: Mapping[int, int] = NONE_BESIDE,
    ) -> None:
        """Begin to copy a replica. The caller has already collected ended copies with `ended`.

        Args:
            tp: its partition.
            pair: its leader and its broker.
            size: its bytes.
            at_s: the second.
            beside: further replicas that its broker copies as long as this one, by leader.
        """
        if at_s != self._at_s:
            self._settle()
        if pair not in self._of:
            self._of[pair] = BrokerIntake(partial(self._of_pair, pair))
            for broker in pair:
                self._touching[broker].append(pair)
        self._beside[tp] = beside
        self._load_changed(tp, pair, at_s, 1)
        self._of[pair].add(tp, size, at_s)

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Return copies that ended by then: second, partition, broker; each copy once."""
        ended = []
        while (next_s := self.next_end_s) <= by_s:
            for pair, copies in self._of.items():
                for end_s, tp in copies.ended(next_s):
                    ended.append((end_s, tp, pair[1]))
                    self._load_changed(tp, pair, end_s, -1)
        return ended

    def _of_pair(self, pair: Pair, at_once: int) -> float:
        return at_once * self._bytes_s(pair, self._load)

    def _load_changed(self, tp: TopicPartition, pair: Pair, at_s: float, sign: int) -> None:
        """Count a copy that begins (1) or has ended (-1), with those beside it."""
        beside, broker = self._beside[tp], pair[1]
        self._load.add(pair, sign)
        for leader, copies in beside.items():
            self._load.add((leader, broker), sign * copies)
        self._changed.update(pair, beside)
        self._at_s = at_s

    def _settle(self) -> None:
        """Go on with the rates that follow from the last changes."""
        if not self._changed:
            return
        touched = {pair for broker in self._changed for pair in self._touching[broker]}
        self._changed.clear()
        for pair in touched:
            self._of[pair].rate_changed(self._at_s)
        self._next_end_s = min(copies.next_end_s for copies in self._of.values())
