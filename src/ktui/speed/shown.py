"""What the copies of runs have shown of a cluster's speed, and the rates for another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from statistics import median, quantiles
from typing import NamedTuple

import msgspec

from ktui.insights import NonNegativeInt, Prior, RateCurve, Spread
from ktui.json_text import Dated
from ktui.speed.capacity import ASSUMED, THROTTLED, Amount, BrokerShown, CapacityMemory
from ktui.speed.copies import HALF_AT, speedup

SCHEMA_VERSION = 1
_HELD = 0.25
"""A throttle of which copies got less has not held them up: their brokers are slow.

In all labs of `bench/forecast` throttles that held up every copy let 0.32 to 0.55 of themselves
through.
"""
TELLING_S = 10.0
"""A rate counts as shown by a run in which it was seen for so many seconds, over all brokers."""
_DOUBT_S = 60.0
"""A broker's rate is mixed with the others' as if they had shown it for so long: labs' brokers,
which are alike, differ by chance with less.
"""
_DECILES = 10


class SpeedShown(Dated, frozen=True, kw_only=True):
    """What a run has shown: the contents of its file."""

    schema_version: int = SCHEMA_VERSION
    cluster_id: str
    at: datetime
    received: tuple[BrokerShown, ...]
    step_s: Amount | None = None  # seconds of a step beside copying; None while unknown
    largest: NonNegativeInt  # the bytes of the largest partition that it has copied
    brokers: NonNegativeInt | None = None


def received_by(memory: CapacityMemory) -> tuple[BrokerShown, ...]:
    """Return what brokers have received, by broker and throttle."""
    return tuple(each for each in memory.received.values() if each.seconds)


def together(before: SpeedShown | None, now: SpeedShown) -> SpeedShown:
    """Return what two engines of a run have shown, one after the other."""
    if before is None or before.cluster_id != now.cluster_id:
        return now
    sums = {(one.broker, one.throttle): one for one in before.received}
    for one in now.received:
        key = one.broker, one.throttle
        sums[key] = one.added_to(sums.get(key))
    return msgspec.structs.replace(
        now,
        received=tuple(sums.values()),
        step_s=before.step_s if now.step_s is None else now.step_s,
        largest=max(before.largest, now.largest),
    )


def prior_of(shown: Sequence[SpeedShown]) -> Prior | None:
    """Return the rates that runs of a cluster have shown together; None if nothing was copied."""
    runs = [each for each in shown if any(one.bytes for one in each.received)]
    received = [one for each in runs for one in each.received if one.seconds]
    if not runs:
        return None
    learnt = learn_curve([each.received for each in runs])
    steps_s = [each.step_s for each in runs if each.step_s is not None]
    rates = [one.alone / one.seconds for one in received]
    cuts = quantiles([*rates, rates[0]], n=_DECILES, method="inclusive")
    return Prior(
        replica_bytes_s=Spread(cuts[0], cuts[4], cuts[-1], len(rates)),
        step_s=median(steps_s) if steps_s else 0.0,
        curve=learnt.curve,
        runs=len(runs),
        alone=dict(_by_broker(learnt.free, learnt.curve.bytes_s(1, None))),
        onto=tuple(sorted({one.broker for one in received})),
        throttle=max((one.throttle for one in received if one.throttle is not None), default=None),
        largest=max(each.largest for each in runs),
        brokers=max((each.brokers for each in runs if each.brokers), default=None),
        at=max(each.at for each in runs),
    )


class Learnt(NamedTuple):
    """A curve, and what it rests on."""

    curve: RateCurve
    free: list[BrokerShown]  # what no throttle held up; empty where that rate is assumed
    held: list[BrokerShown]  # what a throttle held up, which shows its share


def learn_curve(
    runs: Sequence[Sequence[BrokerShown]], others: Sequence[BrokerShown] = ()
) -> Learnt:
    """Return the rates that brokers have shown together, of which some bytes were copied.

    Where a throttle held up every copy, the share of it that they got is known, and the rate
    without it is assumed. `others` was copied outside of any run.
    """
    received = [one for each in (*runs, others) for one in each if one.seconds]
    limits = {one.throttle for one in received if one.throttle is not None}
    binding = {
        each for each in limits if _share([o for o in received if o.throttle == each]) >= _HELD
    }
    held = [one for one in received if one.throttle in binding]
    free = [one for one in received if one.throttle is None]
    if not any(one.alone for one in free):
        free = [_as_free(one) for one in received if one.throttle not in {None, *binding}]
    seconds, alone = sum(one.seconds for one in free), sum(one.alone for one in free)
    free_s = (
        sum(o.seconds for o in each if o.throttle not in binding and o.bytes) for each in runs
    )
    usual = alone / seconds if alone else max(ASSUMED.middle, *(o.bytes / o.seconds for o in held))
    curve = RateCurve(
        most_bytes_s=(1 + HALF_AT) * usual,
        half_at=HALF_AT,
        most_at_once=max(1, *(one.at_once for one in received)),
        throttled=_share(held) if held else THROTTLED.middle,
        unthrottled_runs=sum(each >= TELLING_S for each in free_s),
        known_to=None if alone else max(binding, default=0),
    )
    return Learnt(curve, free if alone else [], held)


def _share(held: Sequence[BrokerShown]) -> float:
    granted = sum(one.seconds * (one.throttle or 0) for one in held)
    return min(1.0, sum(one.bytes for one in held) / granted) if granted else 0.0


def _as_free(one: BrokerShown) -> BrokerShown:
    """Return what came under a throttle that held nothing up, as without one."""
    alone = one.bytes / speedup(one.bytes / one.alone) if one.alone else 0.0
    return msgspec.structs.replace(one, throttle=None, alone=alone)


def _by_broker(free: Iterable[BrokerShown], usual: float) -> Iterable[tuple[int, float]]:
    sums: dict[int, tuple[float, float]] = {}
    for one in free:
        size, seconds = sums.get(one.broker, (usual * _DOUBT_S, _DOUBT_S))
        sums[one.broker] = size + one.alone, seconds + one.seconds
    return ((broker, size / seconds) for broker, (size, seconds) in sorted(sums.items()))
