"""How fast a cluster copies by its recordings, and how far these reach."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from statistics import median, quantiles
from typing import NamedTuple

import msgspec

from ktui.insights import Prior, RateCurve, Spread
from ktui.planning.throttle_rates import ThrottleRates
from ktui.quantities import as_count, as_duration, as_rate
from ktui.speed.capacity import ASSUMED, THROTTLED, BrokerShown, Capacity, Rates
from ktui.speed.copies import SENDING, Pair, speedup
from ktui.speed.shown import TELLING_S, Learnt, learn_curve
from ktui.speed.simulate import POLL_S, StepOverhead

LEAST_RUNS = 2  # with fewer runs, no run can be compared with a model of the others
LEAST_STEPS = 10  # counts steps that copy
LEAST_TESTED = 1
"""So many runs have to test the model: runs whose time a model of the others predicts."""
FARTHEST_OFF = 0.5
"""A model with a larger error on the run itself says nothing about that run under other limits."""
_TOLERANCE = 1.001  # rates are sums of rounded figures


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of the recordings of a cluster."""

    runs: int = 0
    steps: int = 0
    broker_bytes_s: float = 0.0
    free: bool = False
    throttle: int = 0  # the highest that held a copy up, bytes a second
    fewest_at_once: int = 0  # into one broker, copied for `TELLING_S` in all
    most_at_once: int = 0  # the most replicas, likewise
    partitions: int = 0


class SimulatedUse(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of a run under some limits and a throttle, as simulated."""

    throttle: ThrottleRates
    broker_bytes_s: float
    fewest_at_once: int
    most_at_once: int
    partitions: int


def missing_evidence(seen: Evidence) -> Iterator[str]:
    """Yield what has to be recorded before anything can be advised."""
    if seen.runs < LEAST_RUNS:
        yield f"{as_count(LEAST_RUNS, 'run')} have to be recorded, and there is {seen.runs}"
    if seen.steps < LEAST_STEPS:
        yield f"{LEAST_STEPS} steps that copy have to be recorded, and there are {seen.steps}"


def beyond_evidence(use: SimulatedUse, seen: Evidence) -> Iterator[str]:
    """Yield each need that goes beyond what was recorded; nothing where all are within it."""
    rates = [use.throttle.every, *(each.bytes_s for each in use.throttle.brokers)]
    if None in rates and not seen.free:
        yield "nothing was recorded without a throttle"
    highest = max((rate for rate in rates if rate is not None), default=0)
    most = max(seen.throttle, seen.broker_bytes_s if seen.free else 0)
    if highest > most * _TOLERANCE:
        yield f"no throttle above {as_rate(most)} was recorded"
    if use.broker_bytes_s > seen.broker_bytes_s * _TOLERANCE:
        taken = as_rate(seen.broker_bytes_s)
        yield f"{as_rate(use.broker_bytes_s)} into a broker, and {taken} at most were recorded"
    for beyond, needed, recorded in (
        (use.most_at_once > seen.most_at_once, use.most_at_once, f"{seen.most_at_once} at most"),
        (
            use.fewest_at_once < seen.fewest_at_once,
            use.fewest_at_once,
            f"{seen.fewest_at_once} at least",
        ),
    ):
        if beyond:
            yield f"{needed} at once into a broker, and {recorded} were recorded"
    if use.partitions > seen.partitions:
        at_once = as_count(use.partitions, "partition")
        yield f"{at_once} at once, and {seen.partitions} at most were recorded"


class HeldOutTests(msgspec.Struct, frozen=True):
    """How a cluster's runs compare with what models of the other runs predict for them."""

    runs: int = 0
    low: float = 1.0  # the shortest real time by the predicted one: p10, or the least
    high: float = 1.0

    def widened(self, predicted_s: float, low_s: float, high_s: float) -> tuple[float, float]:
        """Return the range of a prediction that has the errors of earlier ones in it, too."""
        return min(low_s, predicted_s * self.low), max(high_s, predicted_s * self.high)


def untested(tests: HeldOutTests) -> Iterator[str]:
    """Yield a reason where no run has tested the model."""
    if tests.runs < LEAST_TESTED:
        yield (
            "no prediction was compared with a run; record one that keeps its limits and its "
            "throttle to its end"
        )


def model_too_far_off(error: float | None) -> Iterator[str]:
    """Yield a reason where the error (predicted - actual) / actual is too large, or None."""
    if error is not None and not abs(error) <= FARTHEST_OFF:
        yield f"predicted from other runs, this one is {abs(error):.0%} off; record runs like it"


_EVEN = 1.0 + SENDING
"""The copies of a broker for each that it receives, by default: it sends as many."""
_DECILES = 10
_MOST_COPIES = 2_000
"""The latest copies of a run that tell how many its brokers had in flight: a second of work."""
_FEW = 5  # with fewer ratios (one per run and broker), the range is the assumed one, no percentiles


class InflowSample(msgspec.Struct, frozen=True, gc=False):
    """The bytes into one broker under one throttle; `at_once` 0: seconds in which none came."""

    source: str | None
    broker: int
    at_once: int
    seconds: float
    bytes: float
    throttle: int | None  # the broker's follower throttle, bytes a second; None without one
    load: float | None = None  # copies of the busier broker of each; None if unknown

    @property
    def shown(self) -> BrokerShown:
        alone = self.bytes / max(1, self.at_once)
        if self.throttle is None:  # copies under a throttle leave their brokers time for others
            busy = max(1.0, _EVEN * self.at_once if self.load is None else self.load)
            alone *= busy / speedup(busy)
        return BrokerShown(
            self.broker, self.throttle, self.bytes, alone, self.seconds, self.at_once
        )

    @property
    def bytes_s(self) -> float:
        return self.bytes / self.seconds


class RecordedStep(msgspec.Struct, frozen=True, gc=False):
    """One step of a recorded run."""

    source: str
    adds: bool
    took_s: float
    copying_s: float  # the part of `took_s` in which its replicas were catching up


class FitInputs(msgspec.Struct, frozen=True):
    """The inputs of the fit for one cluster."""

    inflows: tuple[InflowSample, ...]
    steps: tuple[RecordedStep, ...]
    partitions: int = 0  # the most partitions that were being reassigned at one time


class Model(msgspec.Struct, frozen=True):
    """The fitted model, and the evidence behind it."""

    curve: RateCurve
    joining_s: int  # seconds that a step with copies takes beside the copying
    other_s: int  # seconds that a step without copies takes
    runs: tuple[str, ...] = ()
    seen: Evidence = Evidence()  # the recorded evidence, beyond which the model does not carry
    assumed: tuple[str, ...] = ()

    def assumptions(self, throttle: ThrottleRates, onto: Collection[int]) -> tuple[str, ...]:
        """Return the figures behind times onto some brokers that no recording shows."""
        rates = [throttle.of(broker) for broker in onto]
        figures = list(self.assumed)
        if self.seen.throttle == 0 and any(rate is not None for rate in rates):
            figures.append(f"that copies get {THROTTLED.middle:.0%} of a throttle")
        if not all(map(self.curve.carries, rates)):
            figures.append(
                f"{as_rate(self.curve.bytes_s(1, None))} into a broker without a throttle"
            )
        return tuple(figures)

    def under(self, throttle: ThrottleRates) -> Rates:
        alone = self.curve.bytes_s(1, None)
        replica = Spread(self.curve.low * alone, alone, self.curve.high * alone, len(self.runs))
        prior = Prior(replica, self.joining_s, self.curve, len(self.runs))
        return Capacity(prior, share=self.curve.throttled).under(throttle)

    @property
    def overhead(self) -> StepOverhead:
        return StepOverhead(self.joining_s, self.other_s)


class RecordedCopy(NamedTuple):
    """A replica that a step has added."""

    pair: Pair
    began_s: float
    ended_s: float


class RunLoads:
    """How many copies the brokers of a run had in flight, of its last `_MOST_COPIES`."""

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
    """Fit the model of one cluster, without held-out runs; None where nothing was copied."""
    seen = [one for one in inflows if one.seconds > 0 and one.bytes > 0]
    if not seen:
        return None
    runs = defaultdict[str | None, dict[tuple[int, int | None], BrokerShown]](dict)
    for one in inflows:
        key, of_run = (one.broker, one.throttle), runs[one.source]
        of_run[key] = one.shown.added_to(of_run.get(key))
    others = [*runs.pop(None, {}).values()]
    learnt = learn_curve([[*of_run.values()] for of_run in runs.values()], others)
    ratios = [
        ratio
        for received in (*(of_run.values() for of_run in runs.values()), others)
        for ratio in _ratios(learnt.curve, received)
    ]
    low, high = _range(ratios)
    return Model(
        curve=msgspec.structs.replace(learnt.curve, low=low, high=high),
        joining_s=_overhead_s([step.took_s - step.copying_s for step in steps if step.adds], 0),
        other_s=_overhead_s([step.took_s for step in steps if not step.adds], POLL_S),
        runs=tuple(sorted({one.source for one in seen if one.source is not None})),
        seen=_evidence(seen, learnt, steps, partitions),
        assumed=tuple(_assumed_figures(ratios, steps)),
    )


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
    seen: Collection[InflowSample], learnt: Learnt, steps: Iterable[RecordedStep], partitions: int
) -> Evidence:
    seconds: defaultdict[int, float] = defaultdict(float)
    for one in seen:
        seconds[one.at_once] += one.seconds
    telling = [at_once for at_once, of in seconds.items() if of >= TELLING_S]
    copied = [step for step in steps if step.adds and step.copying_s > 0]
    return Evidence(
        runs=len({one.source for one in seen} - {None}),
        steps=len(copied),
        broker_bytes_s=max(one.bytes_s for one in seen),
        free=bool(learnt.free),
        throttle=max((one.throttle or 0 for one in learnt.held), default=0),
        fewest_at_once=min(telling, default=0),
        most_at_once=max(telling, default=0),
        partitions=partitions,
    )


def _overhead_s(seconds: Sequence[float], unknown: int) -> int:
    if not seconds:
        return unknown
    return max(unknown, round(median(seconds) - POLL_S / 2))


def _ratios(curve: RateCurve, received: Iterable[BrokerShown]) -> Iterator[float]:
    """Yield what each broker has received in one run, as a multiple of what the curve expects."""
    free = curve.bytes_s(1, None)
    sums = defaultdict[int, list[float]](lambda: [0.0, 0.0])
    for one in received:
        held_up = one.throttle is not None and curve.throttled * one.throttle < free
        expected = curve.throttled * (one.throttle or 0) if held_up else free
        sums[one.broker][0] += one.bytes if held_up else one.alone
        sums[one.broker][1] += one.seconds * expected
    yield from (copied / expected for copied, expected in sums.values() if copied > 0)


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    if len(ratios) < _FEW:
        assumed = ASSUMED.times(1 / ASSUMED.middle)
        return min(assumed.low, *ratios), max(assumed.high, *ratios)
    cuts = quantiles(ratios, n=_DECILES, method="inclusive")
    return min(1.0, cuts[0]), max(1.0, cuts[-1])
