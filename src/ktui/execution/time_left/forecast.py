"""Forecast the time left of a run: simulate its rest every few seconds, count down in between."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from statistics import quantiles

from ktui.execution.run.events import StepBegun, StepOver
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep
from ktui.execution.time_left.broker_capacity import MANY, Capacity
from ktui.execution.time_left.copy_progress import CopyProgress, Timelines
from ktui.execution.time_left.least_left import LeastLeft, RateSource, least_remaining
from ktui.execution.time_left.simulate_rest import Remaining, simulate_remaining
from ktui.insights.prior import Prior
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.progress.timeline import Range

_EVERY = timedelta(seconds=5)
_REMEMBERED = timedelta(minutes=10)
"""The spread of the forecasts of this period shows how certain the forecast is."""
_UNSURE = 1.25
"""The least uncertainty of a rate: so many times as fast, or as slow."""
_JUDGED_S = 10.0
"""A step without observations counts as a sample of so many seconds, at its mean rate."""
_DECILES = 10
_SMALLEST_SAMPLE = 1_000_000
"""Bytes; smaller copies say nothing about a rate."""


class TimeLeftForecast:
    """Learn from the copies of a run, and simulate its rest.

    Args:
        run: the fold of its journal.
        prior: the rates of earlier runs; None if there are none.
    """

    def __init__(self, run: Run, prior: Prior | None) -> None:
        self._run = run
        self._prior = prior
        self._capacity = Capacity(None if prior is None else prior.curve)
        self.headway = CopyProgress(run, self._capacity)
        self._at: datetime | None = None
        self._simulated_at: datetime | None = None
        self._simulated = Remaining(0.0, 0.0)
        self._ends: deque[tuple[datetime, float]] = deque()
        """The time of each forecast, and its end of the run, in seconds since the epoch."""

    def follow(self, run: Run) -> None:
        """Follow another fold of the same journal from now on."""
        self._run = run
        self.headway.follow(run)

    @property
    def looked(self) -> bool:
        """Whether there was a poll: before that, there is no forecast."""
        return self._at is not None

    @property
    def known(self) -> bool:
        """Whether this run has shown how fast it copies."""
        return self._capacity.known

    def change(self, at: datetime, *, throttle: bool) -> None:
        """Discard earlier forecasts, for the run goes on in another way."""
        self._simulated_at = None
        self._ends.clear()
        if throttle:
            self.headway.throttled(at)

    def rates_changed(self, at: datetime) -> None:
        """Learn nothing from the copies until the new rates of the brokers are in force."""
        self.headway.throttled(at)

    def step_over(self, begun: StepBegun, since: datetime, over: StepOver, at: datetime) -> None:
        """Learn from a step that ended as intended."""
        track = self._run.tracks[over.tp]
        self.headway.over(over.tp, OpenStep(begun, since), at)
        size, took_s = track.planned.size, (at - since).total_seconds()
        if self.headway.looked or size < _SMALLEST_SAMPLE or took_s <= 0:
            return
        seconds = min(took_s, _JUDGED_S)
        copied = dict.fromkeys(begun.adding, size * seconds / took_s)
        at_once = dict.fromkeys(begun.adding, 1)
        self._capacity.learn(at_once, copied, seconds, self._run.throttled.in_force)

    def update(self, now: datetime, seen: Timelines, expected_bytes_s: float) -> None:
        """Update the forecast at a poll; `expected_bytes_s` is the rate of unobserved replicas."""
        self._at = now
        self.headway.update(now, seen, expected_bytes_s)

    def left_s(self) -> Range:
        """Return the seconds left, by the rates of this run or else of earlier runs.

        Raises:
            ValueError: there was no poll yet.
        """
        now, prior = self._at, self._prior
        if now is None:
            raise ValueError("there was no poll yet")
        if (
            self._simulated_at is None
            or now - self._simulated_at >= _EVERY
            or now < self._simulated_at
        ):
            self._simulate(now)
        simulated, passed_s = self._simulated, (now - (self._simulated_at or now)).total_seconds()
        low, high = 1 / _UNSURE, _UNSURE
        if not self.known and prior is not None:
            low, high = min(low, 1 / prior.curve.high), max(high, 1 / prior.curve.low)
        whole_s = simulated.whole_s
        least, most = self._recent_spread(now)
        return Range(
            max(0.0, min(simulated.copying_s * low + simulated.waiting_s - passed_s, least)),
            max(0.0, whole_s - passed_s),
            max(0.0, simulated.copying_s * high + simulated.waiting_s - passed_s, most),
        )

    @property
    def most_bytes_s(self) -> float:
        """The highest rate into a broker that is of use to the run, in bytes a second."""
        bandwidth = self._capacity.under(NO_THROTTLE)
        onto = [broker for broker, count in self._run.copies.onto.items() if count > 0]
        return max(
            (bandwidth.takes(broker, MANY) for broker in onto), default=self._capacity.usual_bytes_s
        )

    def left_under(self, throttle: ThrottleRates, grows_s: float) -> Remaining:
        """Return the time left if brokers had these rates from now on.

        Args:
            throttle: the rates.
            grows_s: the seconds in which the partitions that wait are copied, one after the other.
                On average they grow for half of them.

        Raises:
            ValueError: there was no poll yet.
        """
        run, headway = self._run, self.headway
        joining_s = headway.joining_s
        if joining_s is None:
            joining_s = 0 if self._prior is None else round(self._prior.step_s)
        return simulate_remaining(
            run,
            headway,
            self._capacity.under(throttle),
            joining_s=joining_s,
            grown=self._grown(grows_s),
        )

    def least_left(self) -> LeastLeft | None:
        """Compare the last forecast with the least possible time, at the same rates and sizes.

        Returns:
            None where nothing is copied any more, and before the first poll.
        """
        if self._at is None:
            return None
        if self._simulated_at is None:
            self._simulate(self._at)
        whole_s, in_force = self._simulated.whole_s, self._run.throttled.in_force
        bound = least_remaining(
            self._run, self.headway, self._capacity.under(in_force), grown=self._grown(whole_s)
        )
        if bound is None:
            return None
        source = RateSource.ASSUMED if self._prior is None else RateSource.EARLIER_RUNS
        rates = RateSource.RUN if self.known else source
        return LeastLeft(bound, max(1.0, whole_s / bound.time_s.middle), rates)

    def _grown(self, grows_s: float) -> float:
        run, now = self._run, self._at
        if now is None:
            raise ValueError("there was no poll yet")
        passed_s = 0.0 if run.started_at is None else (now - run.started_at).total_seconds()
        return self.headway.grown(passed_s + grows_s / 2)

    def _simulate(self, now: datetime) -> None:
        self._simulated_at = now
        self._simulated = self.left_under(self._run.throttled.in_force, self._simulated.whole_s)
        whole_s = self._simulated.whole_s
        self._ends.append((now, now.timestamp() + whole_s))
        while now - self._ends[0][0] > _REMEMBERED:
            self._ends.popleft()

    def _recent_spread(self, now: datetime) -> tuple[float, float]:
        """Return the p10 and p90 of the seconds left by the recent forecasts."""
        ends = [end - now.timestamp() for _, end in self._ends]
        if len(ends) == 1:
            return ends[0], ends[0]
        cuts = quantiles(ends, n=_DECILES, method="inclusive")
        return cuts[0], cuts[-1]
