"""How fast a cluster copies replicas, fitted on what was recorded: small, and all of it visible.

What goes into a broker follows a curve (`insights.curve`): R and h by the rates that no throttle
held up, e by those that one did. A step takes what its copies take, and some seconds beside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median, quantiles

import msgspec

from ktui.insights.curve import RateCurve
from ktui.pipeline.what_if.evidence import TELLING_S, Evidence
from ktui.planning.simulate.copy_rates import ASSUMED
from ktui.planning.simulate.schedule import POLL_S, Tempo
from ktui.planning.throttle_rates import ThrottleRates

_BINDS = 0.7
"""A broker that takes in this share of its throttle is taken to be held up by it. Brokers of a real
cluster took in 74% to 112%: a throttle counts in-sync traffic, too, and copies begin and end."""
_EFFICIENCY = (0.5, 1.05)
_DECILES = 10
_STEEPEST = 0.95
"""Of all of a lonely copy's time, what goes by when others come: else R would have no bound."""
_FEW = 5
"""Fewer brokers of runs than that have no percentiles: the range is that of what was assumed."""


class InflowSample(msgspec.Struct, frozen=True, gc=False):
    """What one broker took in while it added so many replicas at once, under one throttle."""

    source: str | None
    """The run in whose time it was; None outside of any."""
    broker: int
    at_once: int
    seconds: float
    bytes: float
    throttle: int | None
    """Its follower throttle, bytes a second."""

    @property
    def bytes_s(self) -> float:
        """The rate."""
        return self.bytes / self.seconds


class RecordedStep(msgspec.Struct, frozen=True, gc=False):
    """One step of a recorded run."""

    source: str
    adds: bool
    took_s: float
    copying_s: float
    """Of which its replicas were catching up."""


class Model(msgspec.Struct, frozen=True):
    """The fit, with what it rests on."""

    curve: RateCurve
    joining_s: int
    other_s: int
    runs: tuple[str, ...] = ()
    """Those that it was fitted on."""
    seen: Evidence = Evidence()
    """How far it carries."""

    def tempo(self, throttle: ThrottleRates) -> Tempo:
        """Give what a run under a throttle is played by."""
        rates: dict[int, int | None] = {}

        def bytes_s(broker: int, at_once: int) -> float:
            if broker not in rates:
                rates[broker] = throttle.of(broker)
            return self.curve.bytes_s(at_once, rates[broker])

        return Tempo(bytes_s, self.joining_s, self.other_s)


def fit(
    inflows: Collection[InflowSample], steps: Collection[RecordedStep], partitions: int = 0
) -> Model | None:
    """Fit the model; None where nothing was copied.

    Args:
        inflows: of one cluster, those of held-out runs left out.
        steps: likewise.
        partitions: the most that were seen being reassigned at one time.
    """
    seen = [one for one in inflows if one.seconds > 0 and one.bytes > 0]
    if not seen:
        return None
    held_up = [one for one in seen if _held_up(one)]
    throttled = _throttled(held_up)
    reached = _reached(held_up, throttled)
    free = [one for one in seen if not _held_up(one) and not _slower(one, reached)]
    most, half_at = _most(free) if free else (_assumed(seen), 0.0)
    curve = RateCurve(
        most_bytes_s=most,
        most_at_once=max(one.at_once for one in seen),
        half_at=half_at,
        throttled=throttled,
        known_to=None if free else max(one.throttle or 0 for one in held_up),
    )
    low, high = _spread(curve, seen)
    return Model(
        curve=msgspec.structs.replace(curve, low=low, high=high),
        joining_s=_beside([step.took_s - step.copying_s for step in steps if step.adds], 0),
        other_s=_beside([step.took_s for step in steps if not step.adds], POLL_S),
        runs=tuple(sorted({one.source for one in seen if one.source is not None})),
        seen=_evidence(seen, free, steps, partitions),
    )


def _evidence(
    seen: Collection[InflowSample],
    free: Collection[InflowSample],
    steps: Iterable[RecordedStep],
    partitions: int,
) -> Evidence:
    """Sum up what was recorded, and what of it no throttle held up: how far the model carries."""
    seconds: defaultdict[int, float] = defaultdict(float)
    for one in seen:
        seconds[one.at_once] += one.seconds
    telling = [at_once for at_once, of in seconds.items() if of >= TELLING_S]
    copied = [step for step in steps if step.adds and step.copying_s > 0]
    return Evidence(
        runs=len({one.source for one in seen} - {None}),
        steps=len(copied),
        broker_bytes_s=max(one.bytes_s for one in seen),
        free=bool(free),
        throttle=max((one.throttle or 0 for one in seen if _held_up(one)), default=0),
        fewest_at_once=min(telling, default=0),
        most_at_once=max(telling, default=0),
        partitions=partitions,
    )


def _held_up(one: InflowSample) -> bool:
    return one.throttle is not None and one.bytes_s >= _BINDS * one.throttle


def _reached(held_up: Iterable[InflowSample], throttled: float) -> dict[int, float]:
    """Give the most bytes a second that a throttle let through, by how many came at once."""
    reached: defaultdict[int, float] = defaultdict(float)
    for one in held_up:
        reached[one.at_once] = max(reached[one.at_once], throttled * (one.throttle or 0))
    return reached


def _slower(one: InflowSample, reached: Mapping[int, float]) -> bool:
    """Whether under a throttle it is slower than what others took in whom one held up.

    Such a rate tells nothing of how fast it goes without: the broker was busy for a part of the
    time only. Of n replicas at once k alone take in k / n of it at least.
    """
    return one.throttle is not None and any(
        one.bytes_s < bytes_s * min(1.0, one.at_once / n) for n, bytes_s in reached.items()
    )


def _assumed(seen: Sequence[InflowSample]) -> float:
    return max(ASSUMED.middle, *(one.bytes_s for one in seen))


def _most(free: Iterable[InflowSample]) -> tuple[float, float]:
    """Fit R and h: 1 / rate is a line over 1 / n, through the medians, weighed by their seconds."""
    by_count: defaultdict[int, list[InflowSample]] = defaultdict(list)
    for one in free:
        by_count[one.at_once].append(one)
    points = [
        (1 / n, 1 / median(one.bytes_s for one in ones), _weight(ones))
        for n, ones in by_count.items()
    ]
    total = sum(weight for *_, weight in points)
    x = sum(weight * at for at, _, weight in points) / total
    y = sum(weight * inverse for _, inverse, weight in points) / total
    wide = sum(weight * (at - x) ** 2 for at, _, weight in points)
    slope = 0.0
    if wide > 0:
        slope = sum(weight * (at - x) * (inverse - y) for at, inverse, weight in points) / wide
    slope = max(0.0, min(slope, _STEEPEST * y / x))
    base = y - slope * x
    return 1 / base, slope / base


def _weight(ones: Iterable[InflowSample]) -> float:
    """Weigh a median by how long it was seen, and as its inverse is fitted, by its square."""
    ones = list(ones)
    return sum(one.seconds for one in ones) * median(one.bytes_s for one in ones) ** 2


def _throttled(held_up: Collection[InflowSample]) -> float:
    if not held_up:
        return 1.0
    share = median(one.bytes_s / one.throttle for one in held_up if one.throttle)
    low, high = _EFFICIENCY
    return min(high, max(low, share))


def _beside(seconds: Sequence[float], unknown: int) -> int:
    """Give the median in whole polls; a run that is played sees an end half a poll late already."""
    if not seconds:
        return unknown
    return max(unknown, round(median(seconds) - POLL_S / 2))


def _spread(curve: RateCurve, seen: Iterable[InflowSample]) -> tuple[float, float]:
    """Hold what each broker took in, in each run, against what the curve tells."""
    taken: defaultdict[tuple[str | None, int], float] = defaultdict(float)
    told: defaultdict[tuple[str | None, int], float] = defaultdict(float)
    for one in seen:
        key = one.source, one.broker
        taken[key] += one.bytes
        told[key] += one.seconds * curve.bytes_s(one.at_once, one.throttle)
    return _range([taken[key] / told[key] for key in taken])


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    if len(ratios) < _FEW:
        assumed = ASSUMED.times(1 / ASSUMED.middle)
        return min(assumed.low, *ratios), max(assumed.high, *ratios)
    cuts = quantiles(ratios, n=_DECILES, method="inclusive")
    return min(1.0, cuts[0]), max(1.0, cuts[-1])
