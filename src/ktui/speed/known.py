"""How well earlier runs fit the one that is asked about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ktui.insights.prior import Prior
from ktui.speed.answer import Misfit

LARGER = 4.0
"""Partitions so many times as large as any copied before are another case.

Of partitions that fit into the page caches of their leaders, nothing follows for those that do not.
Chosen, not fitted: the partitions of all labs are alike.
"""


def misfits(
    prior: Prior,
    onto: Collection[int],
    limit: Callable[[int], int | None],
    *,
    largest: int = 0,
    brokers: int = 0,
) -> tuple[Misfit, ...]:
    """Return how earlier runs differ from a run, as far as it is known what those were like.

    Args:
        prior: the rates of earlier runs.
        onto: the brokers that receive copies.
        limit: returns the throttle of a broker in bytes a second; None without one.
        largest: the bytes of the largest partition to copy; 0 while unknown.
        brokers: the number of brokers of the cluster; 0 while unknown.
    """
    return tuple(_misfits(prior, onto, limit, largest, brokers))


def _misfits(
    prior: Prior,
    onto: Collection[int],
    limit: Callable[[int], int | None],
    largest: int,
    brokers: int,
) -> Iterator[Misfit]:
    known = bool(prior.onto)
    limits = {limit(broker) for broker in onto}
    unknown_share = known and prior.throttle is None and limits != {None}
    if unknown_share or not all(prior.curve.carries(each) for each in limits):
        yield Misfit.THROTTLE
    if known and not set(onto) <= set(prior.onto):
        yield Misfit.BROKERS
    if prior.brokers is not None and brokers > prior.brokers:
        yield Misfit.GROWN
    if prior.largest is not None and largest > LARGER * prior.largest:
        yield Misfit.SIZES
