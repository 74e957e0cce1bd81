"""Choose the lowest rate at which a run is expected to have ended in time: `--by`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from ktui.execution.run.events import AnyRunEvent, RateChosen, StepOver
from ktui.execution.run.run import Run
from ktui.execution.time_left.copy_progress import Timelines
from ktui.execution.time_left.forecast import TimeLeftForecast
from ktui.execution.time_left.simulate_rest import Remaining
from ktui.insights.prior import Prior
from ktui.speed.shown import SpeedShown

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

    def update(self, now: datetime, seen: Timelines) -> None:
        """Learn from a poll of the partitions in flight, also while there is no time to keep."""
        if self._in_force != self._run.throttled.in_force:
            self._in_force = self._run.throttled.in_force
            self.forecast.change()
            self.forecast.rates_changed(now)
        self.forecast.update(now, seen)

    def shown(self, at: datetime, brokers: int) -> SpeedShown | None:
        return self.forecast.shown(at, brokers)

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

    def _left(self, rate: float | None, grows_s: float) -> Remaining:
        rates = self._run.throttled.with_chosen(None if rate is None else max(1, math.ceil(rate)))
        return self.forecast.left_under(rates, grows_s)

    def _at_most_s(self, left: Remaining) -> float:
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
