"""Plans that even out by numbers: shares, the fewest bytes that are enough, replicas by size."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout

_HAIR = 1e-9
"""Rounding of floating-point numbers, as a part of a share."""


def weighted_shares(
    layout: Layout,
    brokers: Collection[int],
    loads: Mapping[int, int],
    most: Mapping[int, int] | None = None,
) -> dict[int, float]:
    """Return each broker's share, by weight, of what some brokers have together.

    Args:
        layout: the cluster, with the weights.
        brokers: the brokers.
        loads: what each has.
        most: what each can have at most. What one cannot have, the others share.
    """
    left = float(sum(loads.get(broker, 0) for broker in brokers))
    shares = dict.fromkeys(sorted(brokers), 0.0)
    sharing = {broker: layout.weight(broker) for broker in shares if layout.weight(broker) > 0}
    while sharing:
        unit = left / sum(sharing.values())
        full = [
            broker
            for broker, weight in sharing.items()
            if most is not None and most[broker] < unit * weight
        ]
        if most is None or not full:
            return shares | {broker: unit * weight for broker, weight in sharing.items()}
        for broker in full:
            shares[broker] = most[broker]
            left -= most[broker]
            del sharing[broker]
    return shares


class Band(msgspec.Struct, frozen=True):
    """The loads with which a broker counts as even with the others."""

    low: float
    high: float

    @classmethod
    def around(cls, share: float, tolerance: float, *, whole: bool) -> Band:
        """Return the band around a share. Where loads are counts, its edges are whole numbers."""
        low, high = share * (1 - tolerance), share * (1 + tolerance)
        if whole:
            return cls(min(ceil_of(low), floor_of(share)), max(floor_of(high), ceil_of(share)))
        return cls(low - share * _HAIR, high + share * _HAIR)

    def off(self, load: float) -> float:
        """Return how far a load is out of the band."""
        return max(load - self.high, self.low - load, 0)


def floor_of(share: float) -> int:
    """Return the next lower whole number, where rounding errors do not count."""
    return floor(share + max(share, 1) * _HAIR)


def ceil_of(share: float) -> int:
    """Return the next higher whole number, where rounding errors do not count."""
    return ceil(share - max(share, 1) * _HAIR)


_MOST_SUMS = 4_096
"""The sums that are kept; with more, nearly equal ones count as one."""
_SEARCHED = 64
"""The numbers among which the search is as good as complete."""


def least_sum(numbers: Sequence[int], least: int, most: int | None = None) -> list[int]:
    """Return the places of numbers whose sum is the least that reaches a bound.

    The answer is exact where there are few different sums. With many numbers, large ones are taken
    first and the search is among those that can make up the rest.

    Args:
        numbers: the numbers, at least 0.
        least: the sum to be reached. If all together are less, all are taken.
        most: the sum not to be exceeded, which comes first; None for none.
    """
    order = sorted(range(len(numbers)), key=lambda place: (-numbers[place], place))
    order = [place for place in order if numbers[place] > 0]
    if most is not None and most < least:
        return _greatest(numbers, order, most)
    taken: list[int] = []
    while len(order) > _SEARCHED and numbers[order[0]] * _SEARCHED // 4 < least:
        least -= numbers[order[0]]
        if most is not None:
            most -= numbers[order[0]]
        taken.append(order.pop(0))
    if len(order) > _SEARCHED:
        step = len(order) / _SEARCHED
        order = [order[int(place * step)] for place in range(_SEARCHED)]
    found = _search(numbers, order, least, most)
    if found is None:
        if most is not None:
            return [*taken, *_greatest(numbers, order, most)]
        return [*taken, *order]
    return [*taken, *found]


_Chain = tuple[int, "_Chain"] | None


def _search(
    numbers: Sequence[int], order: Sequence[int], least: int, most: int | None
) -> list[int] | None:
    """Return the places with the least sum from `least` to `most`; None if there are none."""
    if least <= 0:
        return []
    best: tuple[int, _Chain] | None = None
    sums: dict[int, _Chain] = {0: None}
    rest = sum(numbers[place] for place in order)
    for place in order:
        number = numbers[place]
        for before, chain in list(sums.items()):
            after = before + number
            if after >= least:
                if (most is None or after <= most) and (best is None or after < best[0]):
                    best = (after, (place, chain))
            elif after not in sums:
                sums[after] = (place, chain)
        rest -= number
        sums = _thinned({each: chain for each, chain in sums.items() if each + rest >= least})
    return None if best is None else _places(best[1])


def _greatest(numbers: Sequence[int], order: Sequence[int], most: int) -> list[int]:
    """Return places whose sum is the greatest, or nearly, that a bound allows."""
    sums: dict[int, _Chain] = {0: None}
    for place in order:
        for before, chain in list(sums.items()):
            after = before + numbers[place]
            if after <= most and after not in sums:
                sums[after] = (place, chain)
        sums = _thinned(sums)
    return _places(sums[max(sums)])


def _thinned(sums: dict[int, _Chain]) -> dict[int, _Chain]:
    if len(sums) <= _MOST_SUMS:
        return sums
    ordered = sorted(sums)
    step = len(ordered) / _MOST_SUMS
    kept = {ordered[int(place * step)] for place in range(_MOST_SUMS)} | {ordered[-1]}
    return {each: sums[each] for each in sorted(kept)}


def _places(chain: _Chain) -> list[int]:
    found: list[int] = []
    while chain is not None:
        found.append(chain[0])
        chain = chain[1]
    return sorted(found)


_Sized = tuple[int, str, int, TopicPartition]


class BySize:
    """The movable replicas of each broker, small ones first.

    Args:
        draft: the draft.
        brokers: the brokers.
    """

    def __init__(self, draft: Draft, brokers: Iterable[int]) -> None:
        self._of: dict[int, list[_Sized]] = {broker: [] for broker in brokers}
        size = draft.layout.size
        for tp in draft.in_scope():
            if draft.immovable(tp):
                continue
            for broker in draft.lists[tp]:
                if (found := self._of.get(broker)) is not None:
                    found.append((size(tp), tp.topic, tp.partition, tp))
        for found in self._of.values():
            found.sort(key=lambda each: each[:3])

    def __getitem__(self, broker: int) -> list[_Sized]:
        """Return the replicas of a broker with their sizes."""
        return self._of[broker]

    def near(
        self, broker: int, size: float, fits: Callable[[TopicPartition], bool]
    ) -> TopicPartition | None:
        """Return the replica that fits and whose size is nearest to this one; or None."""
        for place in self._outward(broker, size):
            tp = self._of[broker][place][3]
            if fits(tp):
                return tp
        return None

    def _outward(self, broker: int, size: float) -> Iterator[int]:
        sized = self._of[broker]
        above = bisect_left(sized, size, key=lambda each: each[0])
        below = above - 1
        while below >= 0 or above < len(sized):
            if below < 0 or (
                above < len(sized) and sized[above][0] - size < size - sized[below][0]
            ):
                yield above
                above += 1
            else:
                yield below
                below -= 1

    def remove(self, broker: int, tp: TopicPartition, size: int) -> None:
        """Remove a replica that has moved."""
        sized = self._of[broker]
        key = (size, tp.topic, tp.partition)
        del sized[bisect_left(sized, key, key=lambda each: each[:3])]

    def put(self, broker: int, tp: TopicPartition, size: int) -> None:
        """Put back a replica that has not moved after all."""
        insort(self._of[broker], (size, tp.topic, tp.partition, tp), key=lambda each: each[:3])
