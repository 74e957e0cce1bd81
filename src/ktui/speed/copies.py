"""Replicas being copied that share brokers: how they slow each other, and when each of them ends.

A copy is slowed by what the busier of its two brokers copies, as fitted on recorded runs of labs
(bench/forecast/ablation.py); docs/insights.md has the figures.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from types import MappingProxyType

from ktui.cluster.partition import Brokers, TopicPartition

SENDING = 0.5
"""What a copy takes of its leader, as a part of what it takes of its receiver.

With 0 or 1, unthrottled forecasts miss by a fifth more (bench/forecast/ablation.py).
"""
HALF_AT = 1.0
"""With so many copies a broker takes in half of what it does with many (`RateCurve`): one waits for
its leader between fetches. With 0 or 4, forecasts of brokers with a share of a core miss by a
sixth more (bench/forecast/ablation.py). Fitted to each cluster's earlier runs, it was no better.
"""

_FINENESS = 25
"""Rates of a broker are computed again once one in so many of its copies has changed: exact for
fewer copies. With more, 10,000 moves are off by 0.2% (bench/plans.py); 200 would make it 0.1%,
in two fifths more time.
"""

NONE_BESIDE: Mapping[int, int] = MappingProxyType({})

Pair = tuple[int, int]  # a leader, and the broker that copies from it


def leader_or_first(leader: int | None, replicas: Brokers) -> int:
    """Return whom a partition is copied from: its leader, its first replica, or -1, no broker."""
    return next(iter(replicas), -1) if leader is None else leader


class BrokerIntake:
    """The replicas that one broker is adding, at `bytes_s` for a number at once.

    Its virtual time is the bytes received by a replica present from the start. So a replica of s
    bytes added at virtual time v ends at v + s, whatever else is added.
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
        ends = self._ends
        if not ends:
            self.next_end_s = inf
            return
        self._byte_s = len(ends) / self._bytes_s(len(ends))
        self.next_end_s = self._at_s + (ends[0][0] - self._virtual) * self._byte_s


def speedup(load: float) -> float:
    """Return how many times as much a broker takes in under some load as with one copy."""
    return load * (1.0 + HALF_AT) / (load + HALF_AT)


class CopyLoad:
    """How many copies brokers have in flight, but those that a throttle holds up."""

    def __init__(self, is_free: Callable[[int], bool], pairs: Iterable[Pair] = ()) -> None:
        self._is_free = is_free
        self._onto = Counter[int]()
        self._load = defaultdict[int, float](float)
        for pair in pairs:
            self.add(pair)

    def add(self, pair: Pair, copies: int = 1) -> None:
        leader, broker = pair
        self._onto[broker] += copies
        if self._is_free(broker):
            self._load[broker] += copies
            self._load[leader] += SENDING * copies

    def onto(self, broker: int) -> int:
        return self._onto[broker]

    def slows(self, pair: Pair) -> float:
        """Return how many times as long a copy takes as alone: its busier end decides."""
        leader, broker = pair
        load = max(1.0, self._load[leader], self._load[broker])
        return (load + HALF_AT) / (1.0 + HALF_AT)  # load / speedup(load)


class CopiesOfBothEnds:
    """The replicas being copied, each at a rate that depends on what both of its ends copy."""

    def __init__(self, bytes_s: Callable[[Pair, CopyLoad], float], load: CopyLoad) -> None:
        self._bytes_s = bytes_s
        self._load = load
        self._of: dict[Pair, BrokerIntake] = {}
        self._beside: dict[TopicPartition, Mapping[int, int]] = {}
        self._touching: defaultdict[int, dict[Pair, BrokerIntake]] = defaultdict(dict)
        """Those of them that a broker is one of."""
        self._changed: set[int] = set()  # the brokers whose load has changed at `_at_s`
        self._copies: Counter[int] = Counter()
        self._drift: Counter[int] = Counter()
        """How many of them have begun or ended since its rates were computed."""
        self._at_s = 0.0
        self._ends: list[tuple[float, Pair]] = []
        """When the next copy of each pair ends; older entries of a pair do not hold."""
        self._unlisted: set[Pair] = set()
        """The pairs whose next end is another one than in that list."""

    @property
    def next_end_s(self) -> float:
        return self._next_end_s()

    def _next_end_s(self) -> float:
        self._settle()
        while self._ends:
            end_s, pair = self._ends[0]
            if pair in self._of and self._of[pair].next_end_s == end_s:
                return end_s
            heapq.heappop(self._ends)
        return inf

    def add(
        self,
        tp: TopicPartition,
        pair: Pair,
        size: float,
        at_s: float,
        beside: Mapping[int, int] = NONE_BESIDE,
    ) -> None:
        """Begin to copy a replica, and others as long from leaders `beside`, after `ended`."""
        if at_s != self._at_s:
            self._settle()
        if pair not in self._of:
            self._of[pair] = intake = BrokerIntake(partial(self._of_pair, pair))
            for broker in pair:
                self._touching[broker][pair] = intake
        self._beside[tp] = beside
        self._load_changed(tp, pair, at_s, 1)
        self._of[pair].add(tp, size, at_s)

    def rates_changed(self, load: CopyLoad, at_s: float) -> None:
        """Go on with other rates and load; the caller has collected ended copies with `ended`."""
        self._settle()
        self._load, self._at_s = load, at_s
        self._changed.update(self._touching)

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Return copies that ended by then: second, partition, broker; each copy once."""
        ended = []
        while (next_s := self._next_end_s()) <= by_s:
            due: dict[Pair, None] = {}
            while self._ends and self._ends[0][0] <= next_s:
                due[heapq.heappop(self._ends)[1]] = None
            for pair in due:
                if pair not in self._of:
                    continue
                for end_s, tp in self._of[pair].ended(next_s):
                    ended.append((end_s, tp, pair[1]))
                    self._load_changed(tp, pair, end_s, -1)
                self._unlisted.add(pair)
                if self._of[pair].next_end_s == inf:
                    del self._of[pair]
                    for broker in pair:
                        self._touching[broker].pop(pair, None)
        return ended

    def _of_pair(self, pair: Pair, at_once: int) -> float:
        return at_once * self._bytes_s(pair, self._load)

    def _load_changed(self, tp: TopicPartition, pair: Pair, at_s: float, sign: int) -> None:
        beside, broker = self._beside[tp], pair[1]
        self._load.add(pair, sign)
        for leader, copies in beside.items():
            self._load.add((leader, broker), sign * copies)
        for end in (*pair, *beside):
            copies = self._copies[end] = self._copies[end] + sign
            drift = self._drift[end] = self._drift[end] + 1
            if _FINENESS * drift > copies:
                self._changed.add(end)
        self._unlisted.add(pair)
        self._at_s = at_s

    def _settle(self) -> None:
        if not self._unlisted and not self._changed:
            return
        touched: dict[Pair, BrokerIntake] = {}
        for broker in self._changed:
            touched |= self._touching[broker]
            self._drift[broker] = 0
        self._changed.clear()
        for pair, intake in touched.items():
            intake.rate_changed(self._at_s)
            heapq.heappush(self._ends, (intake.next_end_s, pair))
        for pair in self._unlisted.difference(touched):
            if pair in self._of:
                heapq.heappush(self._ends, (self._of[pair].next_end_s, pair))
        self._unlisted.clear()
