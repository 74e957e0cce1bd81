"""Numbers out of many whose sum is as little as possible above a bound."""

from __future__ import annotations

from collections.abc import Sequence

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
