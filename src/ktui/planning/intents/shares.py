"""Plans that even out by numbers: shares, the fewest bytes that are enough, replicas by size."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why, Wishes, check_targets
from ktui.planning.plan import join_named

_HAIR = 1e-9  # rounding of floating-point numbers, as a part of a share


def weighted_shares(
    layout: Layout,
    brokers: Collection[int],
    loads: Mapping[int, int],
    most: Mapping[int, int] | None = None,
) -> dict[int, float]:
    """Return each broker's share, by weight, of all `loads`, and of what passes others' `most`."""
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
        return max(load - self.high, self.low - load, 0)


def floor_of(share: float) -> int:
    """Return the next lower whole number, where rounding errors do not count."""
    return floor(share + max(share, 1) * _HAIR)


def ceil_of(share: float) -> int:
    """Return the next higher whole number, where rounding errors do not count."""
    return ceil(share - max(share, 1) * _HAIR)


_MOST_SUMS = 4_096  # the sums that are kept; with more, nearly equal ones count as one
_SEARCHED = 64  # the numbers among which the search is as good as complete


def least_sum(numbers: Sequence[int], least: int, most: int | None = None) -> list[int]:
    """Return the places of numbers, at least 0, whose sum is the least that reaches `least`.

    If all are less, all are taken; `most`, if any, comes first. With few different sums, the answer
    is exact. With many numbers, large ones are taken first, and the search is for the rest.
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


_Sized = tuple[int, TopicPartition]


class BySize:
    """The movable replicas of some brokers of a draft, small ones first."""

    def __init__(self, draft: Draft, brokers: Iterable[int]) -> None:
        self._draft = draft
        self._of: dict[int, list[_Sized]] = {broker: [] for broker in brokers}
        size = draft.layout.size
        for tp in draft.in_scope():
            if draft.immovable(tp):
                continue
            for broker in draft.lists[tp]:
                if (found := self._of.get(broker)) is not None:
                    found.append((size(tp), tp))
        for found in self._of.values():
            found.sort()

    def __getitem__(self, broker: int) -> list[_Sized]:
        return self._of[broker]

    def near(self, broker: int, size: float, new: int) -> TopicPartition | None:
        """Return the replica that may go to a broker and whose size is nearest; or None."""
        for place in self._outward(broker, size):
            tp = self._of[broker][place][1]
            if not self._draft.forbids(tp, broker, new):
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
        sized = self._of[broker]
        del sized[bisect_left(sized, (size, tp))]

    def put(self, broker: int, tp: TopicPartition, size: int) -> None:
        insort(self._of[broker], (size, tp))


Move = tuple[TopicPartition, int, int]


def main_obstacle(draft: Draft, moves: Iterable[Move]) -> Why:
    """Return what forbids the most of some moves."""
    found = Counter(why for move in moves if (why := draft.forbids(*move)))
    return max(found, key=lambda why: (found[why], why), default=Why.NO_REPLICA)


def fill(layout: Layout, brokers: Collection[int], wishes: Wishes) -> MadePlan:
    """Make a plan by which brokers get their weighted share of the replicas, and no more.

    The share is that of the replicas on live brokers in the topics that the plan may change.
    Replicas go only onto these brokers, from those with the most bytes by weight, and their sizes
    are chosen so that bytes even out too. Raises CannotMake.
    """
    filled = check_targets(layout, brokers)
    filling = _Filling(Draft(layout, wishes), filled)
    if not filling.needs:
        has = "has its" if len(filled) == 1 else "have their"
        names = join_named("broker", sorted(filled)).capitalize()
        raise CannotMake(f"{names} {has} share of the replicas already.")
    return filling.made()


class _Filling:
    def __init__(self, draft: Draft, filled: frozenset[int]) -> None:
        self._draft = draft
        online = draft.layout.pool.online
        held: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        for tp in draft.in_scope():
            for broker in draft.lists[tp]:
                if broker in online:
                    held[broker] += 1
                    self._bytes[broker] += draft.layout.size(tp)
        shares = weighted_shares(draft.layout, sorted(online), held)
        self._bytes_shares = weighted_shares(draft.layout, sorted(online), self._bytes)
        short = {broker: floor_of(shares[broker]) - held[broker] for broker in sorted(filled)}
        self.needs = {broker: need for broker, need in short.items() if need > 0}
        self._sources = sorted(online - filled)
        self._by_size = BySize(draft, self._sources)
        self._hopeless: set[tuple[int, int]] = set()

    def made(self) -> MadePlan:
        needs = self.needs
        while needs:
            broker = max(needs, key=lambda each: (needs[each], -each))
            if (why := self._draft.budget.lacks(0)) or not self._fill_one(broker):
                self._draft.leave(None, broker, why or self._obstacle(broker), needs[broker])
                del needs[broker]
            else:
                needs[broker] -= 1
                if not needs[broker]:
                    del needs[broker]
        return self._draft.made()

    def _fill_one(self, new: int) -> bool:
        draft, weight = self._draft, self._draft.layout.weight
        wanted = max(self._bytes_shares[new] - self._bytes[new], 0) / self.needs[new]
        if (left := draft.budget.bytes_left) is not None:
            wanted = min(wanted, left / sum(self.needs.values()))
        for old in sorted(
            self._sources, key=lambda each: (-self._bytes[each] / (weight(each) or 1), each)
        ):
            if (old, new) in self._hopeless:
                continue
            tp = self._by_size.near(old, wanted, new)
            if tp is None:
                self._hopeless.add((old, new))
                continue
            size = draft.layout.size(tp)
            draft.move(tp, old, new)
            self._by_size.remove(old, tp, size)
            self._bytes[old] -= size
            self._bytes[new] += size
            return True
        return False

    def _obstacle(self, new: int) -> Why:
        return main_obstacle(
            self._draft, ((tp, old, new) for old in self._sources for _, tp in self._by_size[old])
        )
