"""Share a budget for the whole cluster among the brokers that receive copies; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ktui.max_min import max_min_rates

SLACK = 0.1
"""A share is left as it is while it differs by no more than this part of it."""
UNUSED = 0.8
"""A broker that takes in less than this part of its share cannot use all of it."""
USED = 0.9
"""From this part of its share on, such a broker may get more again."""
ROOM = 1.25
"""How much more than it takes in such a broker keeps, to be able to take in more."""
_LEAST = 1_000


def usable(
    intake: Mapping[int, float], shares: Mapping[int, int], before: Mapping[int, float]
) -> Mapping[int, float]:
    """Return how much is of use to each broker that cannot use its share, in bytes a second.

    Args:
        intake: the measured bytes a second into brokers that have had their share for long enough.
        shares: the shares.
        before: the brokers that could not use theirs before.
    """
    return {
        broker: ROOM * bytes_s
        for broker, bytes_s in intake.items()
        if broker in shares and bytes_s < (USED if broker in before else UNUSED) * shares[broker]
    }


def share_budget(
    budget: int, most: Mapping[int, float | None], before: Mapping[int, int]
) -> Mapping[int, int]:
    """Return how much of a budget each broker gets, in bytes a second.

    What differs little from the shares before stays, as long as all together exceed the budget by
    little.

    Args:
        budget: bytes a second for all brokers together.
        most: the brokers that receive copies, or are about to, each with the most that is of use
            to it, or None.
        before: the shares so far.
    """
    new = _fair(budget, {b: min(budget, budget if of is None else of) for b, of in most.items()})
    kept = {
        broker: before[broker] if broker in before and _alike(share, before[broker]) else share
        for broker, share in new.items()
    }
    return kept if sum(kept.values()) <= (1 + SLACK) * budget else new


def _fair(budget: int, most: Mapping[int, float]) -> dict[int, int]:
    """Share the budget max-min fairly among brokers, each with the most that is of use to it."""
    flows = [((0, number), 1) for number in range(1, len(most) + 1)]
    rates = max_min_rates([budget, *most.values()], flows)
    return {broker: max(_LEAST, int(rate)) for broker, rate in zip(most, rates, strict=True)}


def _alike(share: int, before: int) -> bool:
    return abs(share - before) <= SLACK * before
