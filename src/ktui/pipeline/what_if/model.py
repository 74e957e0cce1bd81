"""A small, transparent model of how fast a cluster copies replicas, fitted on recordings.

The rate into a broker follows a curve (`insights.curve`). R and h are fitted on the rates that no
throttle held up, e on the rates that one did: bytes come through a throttle in gulps, so what a
broker takes in between two readings is more than its share, or nothing. A step takes as long as its
copies, and some seconds more.

The busier of its two brokers limits a copy (`speed.copies`). What brokers sent is known by the
steps of their run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import median, quantiles
from typing import NamedTuple

import msgspec

from ktui.insights.curve import RateCurve
from ktui.insights.prior import Prior
from ktui.insights.spread import Spread
from ktui.pipeline.what_if.evidence import TELLING_S, Evidence
from ktui.planning.throttle_rates import ThrottleRates
from ktui.quantities import as_duration, as_rate
from ktui.speed.capacity import ASSUMED, BINDS, THROTTLED, Capacity, Rates
from ktui.speed.copies import SENDING, Pair
from ktui.speed.simulate import POLL_S, StepOverhead

_EVEN = 1.0 + SENDING
"""How many copies a broker has for each that it receives, where nothing tells: it sends as many."""
_SLOWED, _LEAST_SHARE = 0.5, 0.3
"""A throttle holds up a broker that reaches `BINDS` of it, or one that takes in less than the first
part of what brokers with as many copies at once take in without one, and more than the second of
its throttle: of large batches, brokers get half."""
_EFFICIENCY = (0.3, 1.05)
_DECILES = 10
_STEEPEST = 0.95
"""The largest share of a lone copy's time that may vanish when others join: R needs a bound."""
_MOST_COPIES = 2_000
"""So many copies of a run tell how many its brokers had in flight: a second of work."""
_FEW = 5
"""With fewer ratios (one per run and broker) than this, the range is the assumed one, not one of
percentiles."""


class InflowSample(msgspec.Struct, frozen=True, gc=False):
    """The bytes into one broker while it added `at_once` replicas, under one throttle.

    With `at_once` 0, these are the seconds in which nothing came through that throttle.
    """

    source: str | None
    """The run under way at that time; None outside of any run."""
    broker: int
    at_once: int
    seconds: float
    bytes: float
    throttle: int | None
    """The broker's follower throttle, bytes a second; None without one."""
    load: float | None = None
    """How many copies the busier broker of each had, on average; None where nothing tells."""

    @property
    def busy(self) -> float:
        """How many copies the busier broker of each had."""
        return max(1.0, _EVEN * self.at_once if self.load is None else self.load)

    @property
    def by_load(self) -> float:
        """The rate if the copies of the busier broker had all come into this one."""
        return self.bytes_s * self.busy / max(1, self.at_once)

    @property
    def bytes_s(self) -> float:
        """The rate, bytes a second."""
        return self.bytes / self.seconds


class RecordedStep(msgspec.Struct, frozen=True, gc=False):
    """One step of a recorded run."""

    source: str
    adds: bool
    took_s: float
    copying_s: float
    """The part of `took_s` in which its replicas were catching up."""


class Model(msgspec.Struct, frozen=True):
    """The fitted model, and the evidence behind it."""

    curve: RateCurve
    joining_s: int
    """Seconds that a step with copies takes beside the copying."""
    other_s: int
    """Seconds that a step without copies takes."""
    runs: tuple[str, ...] = ()
    """The ids of the runs that the model was fitted on."""
    seen: Evidence = Evidence()
    """The recorded evidence, beyond which the model does not carry."""
    assumed: tuple[str, ...] = ()
    """The figures that no recording shows, under whatever throttle."""

    def assumptions(self, throttle: ThrottleRates, onto: Collection[int]) -> tuple[str, ...]:
        """Return the figures of an answer that no recording shows.

        Args:
            throttle: under which a run is simulated.
            onto: the brokers that gain replicas.
        """
        rates = [throttle.of(broker) for broker in onto]
        figures = list(self.assumed)
        if self.seen.throttle == 0 and any(rate is not None for rate in rates):
            figures.append(f"that copies get {THROTTLED.middle:.0%} of a throttle")
        if not all(map(self.curve.carries, rates)):
            figures.append(f"{as_rate(self.curve.most_bytes_s)} into a broker without a throttle")
        return tuple(figures)

    def under(self, throttle: ThrottleRates) -> Rates:
        """Return the rates of copies under a throttle."""
        alone = self.curve.bytes_s(1, None)
        replica = Spread(self.curve.low * alone, alone, self.curve.high * alone, len(self.runs))
        prior = Prior(replica, self.joining_s, self.curve, len(self.runs))
        return Capacity(prior, share=self.curve.throttled).under(throttle)

    @property
    def overhead(self) -> StepOverhead:
        """The seconds of steps beside copying."""
        return StepOverhead(self.joining_s, self.other_s)


class RecordedCopy(NamedTuple):
    """A replica that a step has added."""

    pair: Pair
    began_s: float
    ended_s: float


class RunLoads:
    """How many copies the brokers of a run had in flight.

    Args:
        copies: its copies, of which the last `_MOST_COPIES` count.
    """

    def __init__(self, copies: Iterable[RecordedCopy]) -> None:
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._summed: defaultdict[int, float] = defaultdict(float)
        last = sorted(copies, key=lambda one: one.ended_s)[-_MOST_COPIES:]
        began = [(one.began_s, 1, one.pair) for one in last]
        ended = [(one.ended_s, -1, one.pair) for one in last]
        going, now_s = Counter[Pair](), 0.0
        for at_s, sign, pair in sorted(began + ended):
            if at_s > now_s:
                self._add(+going, at_s - now_s)
            going[pair] += sign
            now_s = at_s

    def _add(self, going: Counter[Pair], seconds: float) -> None:
        onto, load = Counter[int](), defaultdict[int, float](float)
        for (leader, broker), copies in going.items():
            onto[broker] += copies
            load[broker] += copies
            load[leader] += SENDING * copies
        for (leader, broker), copies in going.items():
            share = seconds * copies / onto[broker]
            self._seconds[onto[broker]] += share
            self._summed[onto[broker]] += share * max(load[leader], load[broker])

    def of(self, at_once: int) -> float | None:
        """Return how many the busier broker of a copy had while so many came into one; or None."""
        seconds = self._seconds.get(at_once)
        if seconds:
            return self._summed[at_once] / seconds
        received = sum(count * of for count, of in self._seconds.items())
        return at_once * sum(self._summed.values()) / received if received else None


def fit(
    inflows: Collection[InflowSample], steps: Collection[RecordedStep], partitions: int = 0
) -> Model | None:
    """Fit the model; None where nothing was copied.

    Args:
        inflows: the samples of one cluster, without those of held-out runs.
        steps: the steps of one cluster, without those of held-out runs.
        partitions: the most partitions that were seen being reassigned at one time.
    """
    seen = [one for one in inflows if one.seconds > 0 and one.bytes > 0]
    if not seen:
        return None
    unthrottled = [one for one in seen if one.throttle is None]
    usual = _fit_curve(unthrottled) if unthrottled else None
    held_up = [one for one in seen if _held_up(one, usual)]
    throttled = _throttled(inflows, usual)
    reached = _reached(held_up, 1.0 if throttled is None else throttled)
    free = [one for one in seen if not _held_up(one, usual) and not _slower(one, reached)]
    most, half_at = _fit_curve(free) if free else (_assumed(seen), 0.0)
    curve = RateCurve(
        most_bytes_s=most,
        most_at_once=max(one.at_once for one in seen),
        half_at=half_at,
        throttled=THROTTLED.middle if throttled is None else throttled,
        unthrottled_runs=_telling_runs(free),
        known_to=None if free else max(one.throttle or 0 for one in held_up),
    )
    ratios = _ratios(curve, inflows)
    low, high = _range(ratios)
    return Model(
        curve=msgspec.structs.replace(curve, low=low, high=high),
        joining_s=_overhead_s([step.took_s - step.copying_s for step in steps if step.adds], 0),
        other_s=_overhead_s([step.took_s for step in steps if not step.adds], POLL_S),
        runs=tuple(sorted({one.source for one in seen if one.source is not None})),
        seen=_evidence(seen, held_up, steps, partitions, free=bool(free)),
        assumed=tuple(_assumed_figures(ratios, steps)),
    )


def _telling_runs(free: Iterable[InflowSample]) -> int:
    """Count the runs with `TELLING_S` of copies that no throttle held up, over all brokers."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for one in free:
        if one.source is not None:
            seconds[one.source] += one.seconds
    return sum(of >= TELLING_S for of in seconds.values())


def _assumed_figures(ratios: Collection[float], steps: Collection[RecordedStep]) -> Iterator[str]:
    if len(ratios) < _FEW:
        low, high = (as_rate(rate) for rate in (ASSUMED.low, ASSUMED.high))
        middle = as_rate(ASSUMED.middle)
        yield f"a range of rates as {low} to {high} is around {middle}"
    if not any(step.adds for step in steps):
        yield "no time beside copying"
    if all(step.adds for step in steps):
        yield f"{as_duration(POLL_S)} for a step that copies nothing"


def _evidence(
    seen: Collection[InflowSample],
    held_up: Collection[InflowSample],
    steps: Iterable[RecordedStep],
    partitions: int,
    *,
    free: bool,
) -> Evidence:
    """Sum up the evidence, and what of it a throttle held up."""
    seconds: defaultdict[int, float] = defaultdict(float)
    for one in seen:
        seconds[one.at_once] += one.seconds
    telling = [at_once for at_once, of in seconds.items() if of >= TELLING_S]
    copied = [step for step in steps if step.adds and step.copying_s > 0]
    return Evidence(
        runs=len({one.source for one in seen} - {None}),
        steps=len(copied),
        broker_bytes_s=max(one.bytes_s for one in seen),
        free=free,
        throttle=max((one.throttle or 0 for one in held_up), default=0),
        fewest_at_once=min(telling, default=0),
        most_at_once=max(telling, default=0),
        partitions=partitions,
    )


Usual = tuple[float, float] | None
"""R and h of copies without a throttle; None where there are none."""


def _held_up(one: InflowSample, usual: Usual) -> bool:
    return one.throttle is not None and _binds(one.throttle, one.bytes_s, one.at_once, usual)


def _binds(throttle: int, bytes_s: float, at_once: float, usual: Usual) -> bool:
    """Whether a throttle is why a broker takes in no more."""
    if usual is None or bytes_s < _LEAST_SHARE * throttle:
        return bytes_s >= BINDS * throttle
    most, half_at = usual
    without = most * at_once / (_EVEN * at_once + half_at)
    return bytes_s >= BINDS * throttle or bytes_s < _SLOWED * without


def _reached(held_up: Iterable[InflowSample], throttled: float) -> dict[int, float]:
    """Return the highest rate that a throttle let through, by the number of replicas at once."""
    reached: defaultdict[int, float] = defaultdict(float)
    for one in held_up:
        reached[one.at_once] = max(reached[one.at_once], throttled * (one.throttle or 0))
    return reached


def _slower(one: InflowSample, reached: Mapping[int, float]) -> bool:
    """Whether a throttled rate is below the rates of brokers that a throttle held up.

    Such a rate says nothing about the rate without a throttle: the broker was busy only for a part
    of the time. Of n replicas at once, k alone get at least k / n of the rate.
    """
    return one.throttle is not None and any(
        one.bytes_s < bytes_s * min(1.0, one.at_once / n) for n, bytes_s in reached.items()
    )


def _assumed(seen: Sequence[InflowSample]) -> float:
    return max(ASSUMED.middle, *(one.bytes_s for one in seen))


def _fit_curve(free: Iterable[InflowSample]) -> tuple[float, float]:
    """Fit R and h: a line of 1 / rate over 1 / load, through the medians, weighted by seconds."""
    alike: defaultdict[tuple[int, float], list[InflowSample]] = defaultdict(list)
    for one in free:
        alike[one.at_once, one.busy].append(one)
    points = [
        (1 / busy, 1 / median(one.by_load for one in ones), _weight(ones))
        for (_, busy), ones in alike.items()
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
    """Weight a median by its seconds, and by its square because its inverse is fitted."""
    ones = list(ones)
    return sum(one.seconds for one in ones) * median(one.by_load for one in ones) ** 2


def _throttled(inflows: Iterable[InflowSample], usual: Usual) -> float | None:
    """Fit e: the share of its throttle that a broker got, in the median second of held-up ones.

    None where a throttle held none up.
    """
    seconds: defaultdict[tuple[str | None, int, int], float] = defaultdict(float)
    copied: defaultdict[tuple[str | None, int, int], float] = defaultdict(float)
    replica_s: defaultdict[tuple[str | None, int, int], float] = defaultdict(float)
    for one in inflows:
        if one.throttle:
            key = one.source, one.broker, one.throttle
            seconds[key] += one.seconds
            copied[key] += one.bytes
            replica_s[key] += one.seconds * max(1, one.at_once)
    held_up = sorted(
        (copied[key] / (of * key[2]), of)
        for key, of in seconds.items()
        if of > 0 and _binds(key[2], copied[key] / of, replica_s[key] / of, usual)
    )
    if not held_up:
        return None
    low, high = _EFFICIENCY
    return min(high, max(low, _median_by_weight(held_up)))


def _median_by_weight(values: Sequence[tuple[float, float]]) -> float:
    """Return the median of ascending values, each with its weight."""
    half = sum(weight for _, weight in values) / 2
    reached = accumulate(weight for _, weight in values)
    return next(value for (value, _), weight in zip(values, reached, strict=True) if weight >= half)


def _overhead_s(seconds: Sequence[float], unknown: int) -> int:
    """Return the median in whole polls, less the half poll by which a simulated run is late."""
    if not seconds:
        return unknown
    return max(unknown, round(median(seconds) - POLL_S / 2))


def _ratios(curve: RateCurve, inflows: Iterable[InflowSample]) -> list[float]:
    """Compare the bytes into each broker, in each run, with the prediction of the curve."""
    copied: defaultdict[tuple[str | None, int], float] = defaultdict(float)
    predicted: defaultdict[tuple[str | None, int], float] = defaultdict(float)
    for one in inflows:
        if one.seconds > 0:
            key = one.source, one.broker
            copied[key] += one.bytes
            predicted[key] += one.seconds * _expected(curve, one)
    return [copied[key] / predicted[key] for key in copied if copied[key] > 0]


def _expected(curve: RateCurve, one: InflowSample) -> float:
    """Return the rate that the curve has for a sample, in bytes a second."""
    free = curve.bytes_s(one.busy, None) * max(1, one.at_once) / one.busy
    return free if one.throttle is None else min(free, curve.throttled * one.throttle)


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    if len(ratios) < _FEW:
        assumed = ASSUMED.times(1 / ASSUMED.middle)
        return min(assumed.low, *ratios), max(assumed.high, *ratios)
    cuts = quantiles(ratios, n=_DECILES, method="inclusive")
    return min(1.0, cuts[0]), max(1.0, cuts[-1])
