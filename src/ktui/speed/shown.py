"""What the copies of runs have shown of a cluster's speed, and the rates that follow for another.

A run keeps it in a file, so that the next one knows it without a recording and without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from statistics import median, quantiles
from typing import Annotated

import msgspec

from ktui.insights.curve import RateCurve
from ktui.insights.prior import Prior
from ktui.insights.spread import NonNegativeInt, Spread
from ktui.json_input import checked_moment
from ktui.speed.capacity import ASSUMED, THROTTLED, CapacityMemory
from ktui.speed.copies import HALF_AT, USUAL_OVERLAP

SCHEMA_VERSION = 1
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
"""Bytes or seconds, small enough that no sum of them overflows."""
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**30)]
_HELD = 0.25
"""A throttle of which copies got a smaller share has not held them up: their brokers are slow.

On all labs of `bench/forecast` throttles that held up every copy let 0.32 to 0.55 of themselves
through. With a higher value runs without a throttle would be taken for as slow as those.
"""
_DOUBT_S = 60.0
"""The rate of a broker is mixed with that of the others as if they had shown it for so long. With
less, the rates of the labs' brokers, which are alike, differ by chance."""
_DECILES = 10


class BrokerShown(msgspec.Struct, frozen=True):
    """What a broker has received under one throttle, while it had something to copy."""

    broker: int
    throttle: NonNegativeInt | None
    """Bytes a second; None without one."""
    bytes: _Amount
    alone: _Amount
    """The bytes that a single copy would have received in that time."""
    seconds: _Amount
    at_once: _Count
    """The most copies at a time."""


class SpeedShown(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has shown: the contents of its file."""

    schema_version: int = SCHEMA_VERSION
    cluster_id: str
    at: datetime
    """When its copies were seen last."""
    received: tuple[BrokerShown, ...]
    step_s: _Amount | None = None
    """Seconds of a step beside copying; None while unknown."""
    largest: NonNegativeInt
    """The bytes of the largest partition that it has copied, or begun to."""
    brokers: NonNegativeInt | None = None
    """The number of brokers of the cluster, where it is known."""

    def __post_init__(self) -> None:
        """Refuse a time that cannot be shown."""
        checked_moment(self.at)


def received_by(memory: CapacityMemory) -> tuple[BrokerShown, ...]:
    """Return what brokers have received, by broker and throttle."""
    return tuple(
        BrokerShown(broker, throttle, each.bytes, each.alone, each.seconds, each.at_once)
        for (broker, throttle), each in memory.received.items()
        if each.seconds
    )


def together(before: SpeedShown | None, now: SpeedShown) -> SpeedShown:
    """Return what two engines of a run have shown, one after the other."""
    if before is None or before.cluster_id != now.cluster_id:
        return now
    sums = {(one.broker, one.throttle): one for one in before.received}
    for one in now.received:
        was = sums.get((one.broker, one.throttle))
        sums[one.broker, one.throttle] = one if was is None else _sum(was, one)
    return msgspec.structs.replace(
        now,
        received=tuple(sums.values()),
        step_s=before.step_s if now.step_s is None else now.step_s,
        largest=max(before.largest, now.largest),
    )


def _sum(was: BrokerShown, now: BrokerShown) -> BrokerShown:
    return BrokerShown(
        now.broker,
        now.throttle,
        was.bytes + now.bytes,
        was.alone + now.alone,
        was.seconds + now.seconds,
        max(was.at_once, now.at_once),
    )


def prior_of(shown: Sequence[SpeedShown]) -> Prior | None:
    """Return the rates that runs of a cluster have shown together; None if nothing was copied.

    Where a throttle held up every copy, the share of it that they got is known, and the rate
    without it is assumed.
    """
    runs = [each for each in shown if any(one.bytes for one in each.received)]
    received = [one for each in runs for one in each.received if one.seconds]
    if not runs:
        return None
    free = [one for one in received if one.throttle is None]
    held = [one for one in received if one.throttle is not None]
    if not free and _share(held) < _HELD:
        free, held = [_as_free(one) for one in held], []
    seconds, alone = sum(one.seconds for one in free), sum(one.alone for one in free)
    usual = alone / seconds if alone else ASSUMED.middle
    steps_s = [each.step_s for each in runs if each.step_s is not None]
    throttles = [one.throttle for one in received if one.throttle is not None]
    return Prior(
        replica_bytes_s=_spread([one.alone / one.seconds for one in received]),
        step_s=median(steps_s) if steps_s else 0.0,
        curve=RateCurve(
            most_bytes_s=(1 + HALF_AT) * usual,
            half_at=HALF_AT,
            most_at_once=max(1, *(one.at_once for one in received)),
            throttled=_share(held) if held else THROTTLED.middle,
            unthrottled_runs=_unthrottled_runs(runs),
            known_to=None if alone else max(throttles, default=0),
        ),
        runs=len(runs),
        alone=dict(_by_broker(free, usual)) if alone else {},
        onto=tuple(sorted({one.broker for one in received})),
        throttle=max(throttles, default=None),
        largest=max(each.largest for each in runs),
        brokers=max((each.brokers for each in runs if each.brokers), default=None),
        at=max(each.at for each in runs),
    )


def _share(held: Sequence[BrokerShown]) -> float:
    granted = sum(one.seconds * (one.throttle or 0) for one in held)
    return min(1.0, sum(one.bytes for one in held) / granted) if granted else 0.0


def _as_free(one: BrokerShown) -> BrokerShown:
    """Return what a broker has received under a throttle that held nothing up, as without one.

    Copies under a throttle count as no load for others: `alone` is the mean of those at a time.
    """
    alone = one.bytes / USUAL_OVERLAP.speedup(one.bytes / one.alone) if one.alone else 0.0
    return msgspec.structs.replace(one, throttle=None, alone=alone)


def _unthrottled_runs(runs: Sequence[SpeedShown]) -> int:
    return sum(any(one.throttle is None for one in each.received) for each in runs)


def _by_broker(free: Iterable[BrokerShown], usual: float) -> Iterable[tuple[int, float]]:
    sums: dict[int, tuple[float, float]] = {}
    for one in free:
        size, seconds = sums.get(one.broker, (usual * _DOUBT_S, _DOUBT_S))
        sums[one.broker] = size + one.alone, seconds + one.seconds
    return ((broker, size / seconds) for broker, (size, seconds) in sorted(sums.items()))


def _spread(rates: Sequence[float]) -> Spread:
    cuts = quantiles([*rates, rates[0]], n=_DECILES, method="inclusive")
    return Spread(cuts[0], cuts[4], cuts[-1], len(rates))
