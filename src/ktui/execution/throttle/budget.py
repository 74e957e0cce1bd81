"""Share a budget for the whole cluster among the brokers that receive copies; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

SLACK = 0.1
"""A share is left as it is while it differs by no more than this part of it."""
UNUSED = 0.8
"""A broker that takes in less than this part of its share cannot use all of it."""
ROOM = 1.25
"""How much more than it takes in such a broker keeps, to be able to take in more."""
_LEAST = 1_000


def share_budget(
    budget: int,
    receiving: Collection[int],
    intake: Mapping[int, float],
    most: Mapping[int, int | None],
    before: Mapping[int, int],
) -> Mapping[int, int]:
    """Return how much of a budget each broker gets, in bytes a second.

    A broker that cannot use its share leaves the rest of it to the others. What differs little from
    the shares before stays, as long as all together exceed the budget by little.

    Args:
        budget: bytes a second for all brokers together.
        receiving: the brokers that receive copies now, or are about to.
        intake: the measured bytes a second into brokers that have had their share for long enough.
        most: the rate of a broker's own throttle, or none.
        before: the shares so far.
    """
    wants = {broker: _want(broker, intake, most, before, budget) for broker in receiving}
    new = _filled(budget, wants)
    if new.keys() != before.keys():
        kept = {b: before[b] if b in before and _alike(share, before[b]) else share
                for b, share in new.items()}  # fmt: skip
    elif all(_alike(share, before[broker]) for broker, share in new.items()):
        return before
    else:
        kept = new
    return kept if sum(kept.values()) <= (1 + SLACK) * budget else new


def _want(
    broker: int,
    intake: Mapping[int, float],
    most: Mapping[int, int | None],
    before: Mapping[int, int],
    budget: int,
) -> float:
    """Return the most that a broker is to get."""
    want = float(budget)
    if (own := most.get(broker)) is not None:
        want = min(want, own)
    if broker in intake and broker in before and intake[broker] < UNUSED * before[broker]:
        want = min(want, ROOM * intake[broker])
    return want


def _filled(budget: int, wants: Mapping[int, float]) -> dict[int, int]:
    """Give each broker the same, but none more than it wants; the rest goes to the others."""
    left, shares = float(budget), {}
    for number, broker in enumerate(sorted(wants, key=lambda broker: (wants[broker], broker))):
        share = min(wants[broker], left / (len(wants) - number))
        left -= share
        shares[broker] = max(_LEAST, int(share))
    return shares


def _alike(share: int, before: int) -> bool:
    return abs(share - before) <= SLACK * before
