"""The time left of a run, simulated again and again, and the lowest rate for `--by`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from statistics import quantiles

import msgspec

from ktui.execution.run.events import AnyRunEvent, RateChosen, StepBegun, StepOver
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.time_left import rest
from ktui.insights import Prior
from ktui.pacing.situation import Move
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.progress.catchup import SEEN_S
from ktui.speed.answer import Basis, Source, Span
from ktui.speed.capacity import MANY, Capacity, CapacityMemory, Case, Rates
from ktui.speed.copies import Pair, leader_or_first
from ktui.speed.shown import SpeedShown, received_by

STEP_S = 3.0
"""Seconds a step takes beside copying, unless earlier runs have shown it.

Polls, and the election or the cut: measured on labs. With less, `--until` begins steps that end a
poll or two after it.
"""


class TimeNeeded:
    """Judge how long partitions of a run take now; `step_s` is besides copying, None: the usual."""

    def __init__(self, run: Run, rates: Rates, step_s: float | None, *, known: bool) -> None:
        self._run = run
        self._rates = rates
        self._step_s = STEP_S if step_s is None else step_s
        self._load = rates.load()
        self._counted: set[object] = set()
        self.assumed = not known and rates.basis.source is Source.ASSUMED
        for track, step in run.open_steps:
            if not step.cancelled_by_operator:
                self._count(track, [(rest.leader_of(step), broker) for broker in step.begun.adding])

    def beside(self, moves: Iterable[Move]) -> None:
        """Count the copies of moves that are about to begin together."""
        for move in moves:
            track = self._run.tracks[move.tp]
            self._count(
                track,
                [
                    (leader_or_first(track.planned.leader, track.replicas), broker)
                    for broker in move.step.adds
                ],
            )

    def _count(self, track: Track, pairs: Iterable[Pair]) -> None:
        self._counted.add(track.tp)
        for pair in pairs:
            self._load.add(pair)

    def bytes_s(self, pair: Pair) -> float:
        return self._rates.of_copy(pair, self._load)

    def of(self, track: Track) -> float:
        """Return the seconds that must be left for a partition's next step to be submitted.

        A partition begins only if its whole move fits, with one replica after another. It goes on
        as long as its next step fits. Replicas that are added at once are copied at once.
        """
        missing = [broker for broker in track.planned.target if broker not in track.replicas]
        leader, size = leader_or_first(track.planned.leader, track.replicas), track.planned.size
        copies_s = [size / self._alone_or_counted(track, (leader, broker)) for broker in missing]
        if track.begun:
            return self._step_s + max(copies_s, default=0.0)
        return sum(copies_s) + (len(copies_s) + 1) * self._step_s

    def _alone_or_counted(self, track: Track, pair: Pair) -> float:
        """Of a copy beyond those counted: in addition to them."""
        if track.tp in self._counted and self._load.onto(pair[1]):
            return self.bytes_s(pair)
        self._load.add(pair)
        bytes_s = self.bytes_s(pair)
        self._load.add(pair, -1)
        return bytes_s


_EVERY = timedelta(seconds=1)
_EACH = timedelta(milliseconds=1)  # simulated after so much for each, beyond 1,000 partitions
_REMEMBERED = timedelta(minutes=10)  # their errors show how certain the forecast is
APART = timedelta(seconds=5)  # between those remembered: the newest had no time to be wrong
_LEAST_OFF, _MOST_OFF = 1.07, 4.0  # the range spans a factor between these to either side
_OFF_AT_FIRST = 1.8  # the factor while forecasts have not shown yet how wrong they are
_WIDER = 1.25  # the range spans the errors so far to this power: those to come are larger
_JUDGED_S = 10.0  # a step without observations is a sample of so many seconds, at its mean rate
_DECILES = 10
_SMALLEST_SAMPLE = 1_000_000  # bytes; smaller copies say nothing about a rate


class ForecastMemory(msgspec.Struct):
    """What was learned from a run's copies so far, and what was forecast lately."""

    capacity: CapacityMemory = msgspec.field(default_factory=CapacityMemory)
    copies: rest.CopyProgress = msgspec.field(default_factory=rest.CopyProgress)
    at: datetime | None = None
    simulated_at: datetime | None = None
    simulated: rest.Remaining = rest.Remaining(0.0, 0.0)
    forecasts: deque[tuple[datetime, float]] = msgspec.field(default_factory=deque)
    """With the seconds that it said were left."""


class TimeLeftForecast:
    """Learn from a run's copies, and simulate its rest; `prior`: earlier runs' rates."""

    def __init__(
        self,
        run: Run,
        prior: Prior | None,
        memory: ForecastMemory | None = None,
        share: float | None = None,
    ) -> None:
        self._run = run
        self._prior = prior
        self._memory = memory = ForecastMemory() if memory is None else memory
        self._capacity = Capacity(prior, memory.capacity, share)
        self._likely = Capacity(prior, memory.capacity)  # with the usual share of a throttle
        self.headway = memory.copies

    def follow(self, run: Run) -> None:
        self._run = run

    @property
    def looked(self) -> bool:
        return self._memory.at is not None

    @property
    def known(self) -> bool:
        return self._capacity.known

    def change(self) -> None:
        """Discard earlier forecasts, for the run goes on in another way."""
        self._memory.simulated_at = None
        self._memory.forecasts.clear()

    def rates_changed(self, at: datetime) -> None:
        """Learn nothing from the copies until the new rates of the brokers are in force."""
        self.headway.throttled(at)

    def step_over(self, begun: StepBegun, since: datetime, over: StepOver, at: datetime) -> None:
        track = self._run.tracks[over.tp]
        step = OpenStep(begun, since)
        self.headway.over(over.tp, step, at)
        size, took_s = track.planned.size, (at - since).total_seconds()
        if self.headway.looked or size < _SMALLEST_SAMPLE or took_s <= 0:
            return
        seconds = min(took_s, _JUDGED_S)
        copied = [
            ((rest.leader_of(step), broker), size * seconds / took_s) for broker in begun.adding
        ]
        self._capacity.learn(copied, seconds, self._run.throttled.in_force)

    def update(self, now: datetime, seen: rest.Timelines) -> None:
        self._memory.at = now
        expected = self.time_needed().bytes_s if self.known else lambda _: 0.0
        self.headway.update(self._run, self._capacity, now, seen, expected)

    def time_needed(self) -> TimeNeeded:
        prior, in_force = self._prior, self._run.throttled.in_force
        step_s = None if prior is None else prior.step_s
        return TimeNeeded(self._run, self._likely.under(in_force), step_s, known=self.known)

    @property
    def basis(self) -> Basis:
        if self.known:
            return Basis(Source.THIS_RUN)
        return self._before_known.basis

    @property
    def _before_known(self) -> Rates:
        """What is expected until this run has shown its own, as a check has them."""
        run, tracks = self._run, self._run.tracks.values()
        onto = tuple(broker for broker, count in run.copies.onto.items() if count > 0)
        case = Case(onto, max((track.planned.size for track in tracks), default=0))
        return self._likely.under(run.throttled.in_force, case)

    @property
    def together_bytes_s(self) -> float:
        rates = self._likely.under(self._run.throttled.in_force)
        return sum(rates.takes(broker, 1) for broker, n in self._run.copies.onto.items() if n > 0)

    def left_s(self) -> Span:
        """By the rates of this run, else of earlier ones, else assumed. ValueError: no poll yet."""
        now = self._memory.at
        if now is None:
            raise ValueError("there was no poll yet")
        if (
            self._memory.simulated_at is None
            or now - self._memory.simulated_at >= max(_EVERY, len(self._run.tracks) * _EACH)
            or now < self._memory.simulated_at
        ):
            self._simulate(now)
        passed_s = (now - (self._memory.simulated_at or now)).total_seconds()
        left_s = max(0.0, self._memory.simulated.whole_s - passed_s)
        if self.known:
            sooner, later = self._errors(now, left_s)
            span = Span(left_s * sooner, left_s, left_s * later)
        else:
            whole_s, copying_s = self._memory.simulated.whole_s, self._memory.simulated.copying_s
            copying_s = left_s * copying_s / whole_s if whole_s else 0.0
            onto = self._run.copies.onto
            span = self._before_known.time_of(copying_s, left_s - copying_s, onto)
        return Span(span.low, span.middle, span.high + (SEEN_S if left_s else 0.0))

    def shown(self, at: datetime, brokers: int) -> SpeedShown | None:
        """None before the start; with nothing received until copies have shown enough."""
        started = self._run.started
        if started is None:
            return None
        begun = [track for track in self._run.tracks.values() if track.begun]
        return SpeedShown(
            cluster_id=started.cluster_id,
            at=at,
            received=received_by(self._memory.capacity) if self.known else (),
            step_s=self.headway.joining_s,
            largest=max((track.planned.size for track in begun), default=0),
            brokers=brokers,
        )

    @property
    def most_bytes_s(self) -> float:
        """The highest rate into a broker that is of use to the run."""
        bandwidth = self._capacity.under(NO_THROTTLE)
        onto = [broker for broker, count in self._run.copies.onto.items() if count > 0]
        return max(
            (bandwidth.takes(broker, MANY) for broker in onto), default=self._capacity.usual_bytes_s
        )

    def left_under(self, throttle: ThrottleRates, grows_s: float) -> rest.Remaining:
        """Copied at these rates, growing for half of `grows_s`. Raises ValueError: no poll."""
        run, headway = self._run, self.headway
        joining_s = headway.joining_s
        if joining_s is None:
            joining_s = self._capacity.joining_s
        return rest.simulate_remaining(
            run,
            headway,
            self._capacity.under(throttle),
            joining_s=joining_s,
            grown=self._grown(grows_s),
        )

    def least_left(self) -> rest.LeastLeft | None:
        """At the same rates; None before a poll, or with nothing to copy."""
        if self._memory.at is None:
            return None
        if self._memory.simulated_at is None:
            self._simulate(self._memory.at)
        whole_s, in_force = self._memory.simulated.whole_s, self._run.throttled.in_force
        bound = rest.least_remaining(
            self._run, self.headway, self._capacity.under(in_force), grown=self._grown(whole_s)
        )
        if bound is None:
            return None
        if bound.time_s.middle > whole_s:  # more is in flight than the limits of now allow
            bound = msgspec.structs.replace(bound, time_s=Span(whole_s, whole_s, whole_s))
        times = whole_s / bound.time_s.middle if whole_s else 1.0
        return rest.LeastLeft(bound, times, self.basis)

    def _grown(self, grows_s: float) -> float:
        run, now = self._run, self._memory.at
        if now is None:
            raise ValueError("there was no poll yet")
        passed_s = 0.0 if run.started_at is None else (now - run.started_at).total_seconds()
        return self.headway.grown(passed_s + grows_s / 2)

    def _simulate(self, now: datetime) -> None:
        self._memory.simulated_at = now
        self._memory.simulated = self.left_under(
            self._run.throttled.in_force, self._memory.simulated.whole_s
        )
        forecasts = self._memory.forecasts
        if not forecasts or not timedelta(0) <= now - forecasts[-1][0] < APART:
            forecasts.append((now, self._memory.simulated.whole_s))
        while now - forecasts[0][0] > _REMEMBERED:
            forecasts.popleft()

    def _errors(self, now: datetime, left_s: float) -> tuple[float, float]:
        """p10 and p90 of what recent ones should have said, by what they said."""
        errors = [1 / _OFF_AT_FIRST, _OFF_AT_FIRST]
        for at, said_s in self._memory.forecasts:
            passed_s = (now - at).total_seconds()
            if passed_s and said_s:
                errors.append((passed_s + left_s) / said_s)
        cuts = quantiles(errors, n=_DECILES, method="inclusive")
        sooner, later = (1 / cuts[0]) ** _WIDER, cuts[-1] ** _WIDER
        return 1 / _bounded(sooner), _bounded(later)


def _bounded(factor: float) -> float:
    return min(_MOST_OFF, max(_LEAST_OFF, factor))


EVERY_S = 30.0  # seconds between two choices, or a part of the time left where that is less
_PART = 0.05
_LEAST_EVERY_S = 5.0
SLACK = 0.1  # the rate stays while it would change by no more than this part of it
_MARGIN = 0.02  # the part of the whole time that is kept as a reserve, between these bounds
_LEAST_MARGIN_S, _MOST_MARGIN_S = 3.0, 600.0
_SURE = 1.1  # how much longer than forecast copies may take, once their speed is known
_UNSURE = 1.25  # the same before: all of a throttle is expected, this is the reserve for less
_ALL = 1.0
_LOWEST = 1_000  # no rate is below the highest one of use, divided by this
_FINENESS = 1.03  # the search for a rate ends within this factor of the lowest one


class Promise:
    """Choose the rate at which a run ends in time, below any that an operator named."""

    def __init__(self, run: Run, prior: Prior | None) -> None:
        self._run = run
        self.forecast = TimeLeftForecast(run, prior, share=_ALL)
        self._in_force = run.throttled.in_force
        self._chosen_at: datetime | None = None
        self._chosen_for: object = None

    def learn(self, events: Iterable[AnyRunEvent], now: datetime) -> None:
        """Of steps that ended. Call this before the run applies the events."""
        for event in events:
            step = self._run.tracks[event.tp].step if isinstance(event, StepOver) else None
            if isinstance(event, StepOver) and step is not None and event.reached:
                self.forecast.step_over(step.begun, step.at, event, now)

    def update(self, now: datetime, seen: rest.Timelines) -> None:
        """Learn from a poll of the partitions in flight, also while there is no time to keep."""
        if self._in_force != self._run.throttled.in_force:
            self._in_force = self._run.throttled.in_force
            self.forecast.change()
            self.forecast.rates_changed(now)
        self.forecast.update(now, seen)

    def choose(self, now: datetime) -> list[RateChosen]:
        by = self._run.schedule.by
        if by is None or not self._is_due(now, by):
            return []
        chosen, before = self._chosen(now, by), self._run.throttled.chosen
        return [] if before is not None and _alike(before, chosen, now) else [chosen]

    def _is_due(self, now: datetime, by: datetime) -> bool:
        run = self._run
        chosen_for = (run.schedule, run.limits, run.throttled.rates, len(run.tracks))
        every_s = min(EVERY_S, max(_LEAST_EVERY_S, _PART * (by - now).total_seconds()))
        last = self._chosen_at
        waits = run.pauses.whole or run.schedule.begins_at(now) is not None
        if chosen_for == self._chosen_for and last is not None:
            recent = now - last < timedelta(seconds=every_s)
            if recent or waits:
                return False
        self._chosen_at, self._chosen_for = now, chosen_for
        return True

    def _chosen(self, now: datetime, by: datetime) -> RateChosen:
        aim = by - self._margin(by)
        aim_s = max(0.0, (aim - now).total_seconds())
        whole = self._left(None, aim_s)
        if self._ends_at(now, self._at_most_s(whole)) > aim:
            soonest = self._ends_at(now, self._left(None, whole.whole_s).whole_s)
            return RateChosen(rate=None, ends_at=soonest, late=soonest > by)
        if not whole.copying_s:
            return RateChosen(rate=None, ends_at=self._ends_at(now, whole.whole_s))

        def ends_at(rate: float) -> datetime:
            return self._ends_at(now, self._at_most_s(self._left(rate, aim_s)))

        def fits(rate: float) -> bool:
            return ends_at(rate) <= aim

        most = self.forecast.most_bytes_s
        present = self._run.throttled.chosen
        if present is not None and present.rate is not None and fits(present.rate):
            most = min(most, float(present.rate))
        rate = math.ceil(_lowest(fits, most))
        ends = ends_at(rate)
        return RateChosen(rate=rate, ends_at=ends, late=ends > by)

    def _left(self, rate: float | None, grows_s: float) -> rest.Remaining:
        rates = self._run.throttled.with_chosen(None if rate is None else max(1, math.ceil(rate)))
        return self.forecast.left_under(rates, grows_s)

    def _at_most_s(self, left: rest.Remaining) -> float:
        longer = _SURE if self.forecast.known else _UNSURE
        return left.copying_s * longer + left.waiting_s

    def _ends_at(self, now: datetime, left_s: float) -> datetime:
        ends_at = self._run.schedule.after(now, left_s)
        return now + timedelta(days=10 * 365) if ends_at is None else ends_at

    def _margin(self, by: datetime) -> timedelta:
        began = self._run.started_at
        whole_s = 0.0 if began is None else (by - began).total_seconds()
        return timedelta(seconds=min(_MOST_MARGIN_S, max(_LEAST_MARGIN_S, _MARGIN * whole_s)))


def _lowest(fits: Callable[[float], bool], most: float) -> float:
    """Given that the highest one fits."""
    low, high = most / _LOWEST, most
    while high > _FINENESS * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _alike(before: RateChosen, now: RateChosen, at: datetime) -> bool:
    if before.late is not now.late or (before.rate is None) is not (now.rate is None):
        return False
    if before.rate is not None and now.rate is not None:
        return abs(now.rate - before.rate) <= SLACK * before.rate
    moved_s = abs((now.ends_at - before.ends_at).total_seconds())
    return moved_s <= max(60.0, SLACK * (now.ends_at - at).total_seconds())
