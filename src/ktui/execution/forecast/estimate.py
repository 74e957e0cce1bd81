"""Estimate how much of a run has been copied, how fast, and when the run will end.

Its journal has the beginning and end of each step. For a step in flight, observations go before the
expectation from earlier steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run import events
from ktui.execution.run.options import NO_SCHEDULE
from ktui.execution.run.run import Run
from ktui.execution.time_left.forecast import ForecastMemory, TimeLeftForecast, TimeNeeded
from ktui.execution.time_left.rest import LeastLeft, Timelines
from ktui.insights import Prior
from ktui.speed.answer import Basis, Source, Span

WINDOW = timedelta(minutes=10)  # for the rate; bytes copied earlier say nothing about it
LEAST = timedelta(seconds=8)  # the shortest period for a rate
STANDSTILL = timedelta(seconds=20)  # a run that has copied nothing for longer is not copying
_PARTS = 6
_SPACING = timedelta(seconds=5)
_HISTORY = 30  # points that stand for the journal's last ten minutes at the first poll
_INTERRUPTS = (
    events.Paused,
    events.Continued,
    events.StepGate,
    events.Outage,
    events.Owned,
    events.EngineLeft,
    events.ThrottleChanged,
    events.Added,
)
_TURNS = (*_INTERRUPTS, events.LimitsChanged)  # earlier forecasts are void after these


class CopiedBytes(msgspec.Struct, frozen=True):
    """The copies of a run, in bytes as of its start; bytes produced meanwhile come on top."""

    done: int = 0  # bytes copied
    whole: int = 0  # bytes to copy; 0 if there is nothing to copy, or no size is known
    bytes_s: float | None = None  # bytes a second; None while unknown
    left_s: Span | None = None  # by partitions without copies; None: at rest, or too young
    basis: Basis = Basis(Source.THIS_RUN)  # of `left_s`: earlier runs, while this one is too young

    @property
    def share(self) -> float | None:
        """0 to 1; None if there is nothing to copy, or sizes are not known."""
        return self.done / self.whole if self.whole else None


NOT_KNOWN = CopiedBytes()


class _Spell(msgspec.Struct, frozen=True):
    """Work done evenly between two moments."""

    since: datetime
    until: datetime
    work: float

    def after(self, moment: datetime) -> float:
        if moment <= self.since:
            return self.work
        if moment >= self.until:
            return 0.0
        return self.work * ((self.until - moment) / (self.until - self.since))


class EstimateMemory(msgspec.Struct):
    """What an estimate has learned from a run's journal and polls so far."""

    prior: Prior | None = None
    forecast: ForecastMemory = msgspec.field(default_factory=ForecastMemory)
    begun: dict[TopicPartition, tuple[events.StepBegun, datetime]] = {}
    first_at: dict[TopicPartition, datetime] = {}
    copied: deque[_Spell] = msgspec.field(default_factory=deque)
    ended: deque[_Spell] = msgspec.field(default_factory=deque)
    since: datetime | None = None  # without an interruption
    under_way: int = 0
    points: deque[tuple[datetime, int]] = msgspec.field(default_factory=deque)
    grew_at: datetime | None = None


class Estimate:
    """Estimate a run's progress from its journal and from polls now and then.

    Work is counted in bytes copied; for a run that copies none, in partitions that have ended.
    """

    def __init__(
        self,
        run: Run,
        prior_of: Callable[[str], Prior | None] = lambda _cluster_id: None,
        memory: EstimateMemory | None = None,
    ) -> None:
        self.run = run
        self._prior_of = prior_of
        self._memory = EstimateMemory() if memory is None else memory
        self._forecast = TimeLeftForecast(run, self._memory.prior, self._memory.forecast)

    def time_needed(self) -> TimeNeeded:
        return self._forecast.time_needed()

    def follow(self, run: Run) -> None:
        self.run = run
        self._forecast.follow(run)

    def take(self, entries: Iterable[events.JournalEntry]) -> None:
        for entry in entries:
            event, at = entry.event, entry.at
            if isinstance(event, _TURNS):
                self._forecast.change()
            if isinstance(event, _INTERRUPTS):
                self._memory.since = at
                self._memory.points.clear()
            elif isinstance(event, events.BudgetShared | events.RateChosen | events.RateHeld):
                self._forecast.rates_changed(at)
            elif isinstance(event, events.Started):
                self._memory.prior = self._prior_of(event.cluster_id)
                self._memory.forecast = ForecastMemory()
                self._forecast = TimeLeftForecast(
                    self.run, self._memory.prior, self._memory.forecast
                )
            elif isinstance(event, events.StepBegun):
                self._memory.begun[event.tp] = event, at
                self._memory.first_at.setdefault(event.tp, at)
            elif isinstance(event, events.StepOver):
                self._step_over(event, at)
            elif isinstance(event, events.StateEntered) and event.state.ended:
                self._memory.begun.pop(event.tp, None)
                since = self._memory.first_at.pop(event.tp, at)
                self._memory.ended.append(_Spell(since, at, 1))

    def _step_over(self, event: events.StepOver, at: datetime) -> None:
        known = self._memory.begun.pop(event.tp, None)
        if known is None or not event.reached:
            return
        begun, since = known
        self._forecast.step_over(begun, since, event, at)
        if begun.adding:
            size = self.run.tracks[event.tp].planned.size
            self._memory.copied.append(_Spell(since, at, size * len(begun.adding)))

    def update(self, now: datetime, seen: Timelines | None = None) -> None:
        """One in flight without a timeline counts as copied as fast as those before it."""
        self._forecast.update(now, seen or {})
        done = self._forecast.headway.done
        in_flight = [_Spell(step.at, now, done(track)) for track, step in self.run.open_steps]
        self._forget(now)
        self._memory.under_way = int(sum(spell.work for spell in in_flight))
        points = self._memory.points
        if not points:
            points.extend(self._history(now, in_flight))
        if points and self._work > points[-1][1]:
            self._memory.grew_at = now
        if len(points) > 1 and points[-1][0] - points[-2][0] < _SPACING:
            points.pop()
        points.append((now, max(self._work, points[-1][1] if points else 0)))
        while now - points[0][0] > WINDOW:
            points.popleft()

    def _forget(self, now: datetime) -> None:
        for spells in (self._memory.copied, self._memory.ended):
            while spells and now - spells[0].until > WINDOW:
                spells.popleft()

    def _history(self, now: datetime, in_flight: list[_Spell]) -> Iterable[tuple[datetime, int]]:
        spells = self._memory.copied if self.run.copies.whole else self._memory.ended
        known = [spell for spell in (*spells, *in_flight) if spell.work]
        since = max(self._memory.since or self.run.started_at or now, now - WINDOW)
        self._memory.grew_at = max((spell.until for spell in known), default=None)
        moments = (since + (now - since) * part / _HISTORY for part in range(_HISTORY))
        for moment in moments if since < now else ():
            yield moment, int(self._work - sum(spell.after(moment) for spell in known))

    @property
    def copied_so_far(self) -> CopiedBytes:
        """Without the time left: the rest may take a simulation."""
        whole = self.run.copies.whole
        return CopiedBytes(self._work if whole else 0, whole)

    @property
    def copied(self) -> CopiedBytes:
        so_far, own = self.copied_so_far, self._rates()
        done, whole = so_far.done, so_far.whole
        if own is None and not self._begins:
            return so_far
        bytes_s = None if own is None or not whole else own.middle
        if own is not None and not (whole and self._forecast.known):
            work = (whole or len(self.run.tracks)) - self._work
            left_s = Span(work / own.high, work / own.middle, work / own.low)
        else:
            left_s = self._forecast.left_s()
        left = self._with_schedule(left_s)
        basis = self._forecast.basis if own is None else Basis(Source.THIS_RUN)
        return CopiedBytes(done, whole, bytes_s, left, basis)

    def least_left(self) -> LeastLeft | None:
        """Of the time left, which is known; a second for 100,000 partitions, in any thread."""
        return self._forecast.least_left()

    def _with_schedule(self, left_s: Span) -> Span | None:
        """The schedule lets no step begin at times; None for years."""
        schedule, points = self.run.schedule, self._memory.points
        now = points[-1][0] if points else None
        if now is None or schedule == NO_SCHEDULE:
            return left_s
        ends = [schedule.after(now, s) for s in (left_s.low, left_s.middle, left_s.high)]
        known = [(end - now).total_seconds() for end in ends if end is not None]
        return Span(*known) if len(known) == len(ends) else None

    @property
    def _work(self) -> int:
        copies, under_way = self.run.copies, self._memory.under_way
        return min(copies.whole, copies.done + under_way) if copies.whole else self.run.over

    def _rates(self) -> Span | None:
        """The mean, between those of the slowest and fastest part of the window."""
        points = self._memory.points
        if self._held or not self._long_enough:
            return None
        if self._memory.grew_at is None or points[-1][0] - self._memory.grew_at > STANDSTILL:
            return None
        mean = _rate(points[0], points[-1])
        if mean <= 0.0:
            return None
        cuts = [points[n * (len(points) - 1) // _PARTS] for n in range(_PARTS + 1)]
        parts = [_rate(a, b) for a, b in pairwise(cuts) if b[0] > a[0]]
        return Span(max(mean / 3, min(parts)), mean, max(parts))

    @property
    def _held(self) -> bool:
        """Whether nothing new is begun. What is cancelled goes on in a pause and at a shut gate."""
        run = self.run
        if run.over + len(run.cancelling) == len(run.tracks):
            return run.outage is not None
        return bool(run.pauses.whole) or run.gate.shut or run.outage is not None

    @property
    def _long_enough(self) -> bool:
        points = self._memory.points
        return len(points) > 1 and points[-1][0] - points[0][0] >= LEAST

    @property
    def _begins(self) -> bool:
        """Too short a time for an own rate: the forecast says what a check would."""
        if not self._forecast.looked or self._held or self._long_enough:
            return False
        return any(t.planned.size for t, step in self.run.open_steps if step.begun.adding)


def _rate(start: tuple[datetime, int], end: tuple[datetime, int]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0]).total_seconds()
