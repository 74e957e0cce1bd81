"""The moves that make a small cluster even with the fewest bytes, by trying them all.

Where only a few large replicas can move, taking one after the other may miss the right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft, ReplicaOn
from ktui.planning.intents.shares import Band

Move = tuple[TopicPartition, int, int]
"""A replica that goes from a broker to another."""
Cost = tuple[float, int]
"""How far brokers stay outside of their bands together, and the bytes that are copied."""
MOST_REPLICAS = 60
"""With more replicas that can move, most cases would not be tried."""
_MOST_TRIED = 40_000


class Search:
    """A search from the draft as it was, which it leaves so.

    Args:
        draft: the draft.
        replicas: those that can move.
        targets: the brokers that they can move to.
        bands: the band of each broker.
        load: what a replica of a partition counts.
        in_bytes: whether that is bytes.
    """

    def __init__(
        self,
        draft: Draft,
        replicas: Sequence[ReplicaOn],
        targets: Sequence[int],
        bands: Mapping[int, Band],
        load: Callable[[TopicPartition], int],
        *,
        in_bytes: bool,
    ) -> None:
        size = draft.layout.size
        self._draft = draft
        self._replicas = sorted(replicas, key=lambda each: (-load(each[0]), size(each[0]), each))
        self._load = load
        self._targets = targets
        self._bands = bands
        self._movable = dict.fromkeys(bands, 0)
        for tp, broker in self._replicas:
            self._movable[broker] += load(tp)
        self._in_bytes = in_bytes
        self._loads: dict[int, int] = {}
        self._tried = 0
        self._moves: list[Move] = []
        self._best: tuple[Cost, list[Move]] = ((inf, 0), [])

    def better_than(self, cost: Cost, loads: Mapping[int, int]) -> list[Move] | None:
        """Return moves that cost less, from these loads on; None if there are none."""
        self._best = (cost, [])
        self._loads = dict(loads)
        self._search(0, 0)
        return self._best[1] or None

    def _search(self, place: int, copied: int) -> None:
        self._tried += 1
        if self._tried > _MOST_TRIED or self._hopeless(copied):
            return
        off = sum(band.off(self._loads[broker]) for broker, band in self._bands.items())
        if (off, copied) < self._best[0]:
            self._best = ((off, copied), [*self._moves])
        if off == 0 or place == len(self._replicas):
            return
        tp, old = self._replicas[place]
        load = self._load(tp)
        self._movable[old] -= load
        for new in sorted(self._targets, key=lambda each: (self._room(each), each), reverse=True):
            if self._fits(tp, old, new):
                self._shift(tp, old, new)
                self._moves.append((tp, old, new))
                self._search(place + 1, copied + self._draft.layout.size(tp))
                self._moves.pop()
                self._shift(tp, new, old)
        self._search(place + 1, copied)
        self._movable[old] += load

    def _room(self, broker: int) -> float:
        return self._bands[broker].high - self._loads[broker]

    def _shift(self, tp: TopicPartition, old: int, new: int) -> None:
        load = self._load(tp)
        self._draft.move(tp, old, new)
        self._loads[old] -= load
        self._loads[new] += load

    def _fits(self, tp: TopicPartition, old: int, new: int) -> bool:
        size, leader = self._draft.cost(tp, old)
        return (
            new not in self._draft.original(tp)
            and self._draft.budget.lacks(size, leader=leader) is None
            and self._draft.why_not(tp, old, new) is None
        )

    def _hopeless(self, copied: int) -> bool:
        """Return whether nothing better can come of the moves so far."""
        over = under = never = 0.0
        for broker, band in self._bands.items():
            load = self._loads[broker]
            over += max(load - band.high, 0)
            under += max(band.low - load, 0)
            never += max(load - band.high - self._movable[broker], 0)
        (best_off, best_copied), _ = self._best
        needed = max(over, under) if self._in_bytes and best_off == 0 else 0
        return never > best_off or (never == best_off and copied + needed >= best_copied)
