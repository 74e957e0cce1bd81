"""The time left of a run, played forward every few seconds and counted down in between."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from statistics import quantiles

from ktui.execution.forecast.broker_capacity import Capacity
from ktui.execution.forecast.copy_progress import Headway, Timelines
from ktui.execution.forecast.simulate_rest import Remaining, remaining
from ktui.execution.run.events import StepBegun, StepOver
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep
from ktui.insights.prior import Prior
from ktui.planning.simulate.fair_share import Pair
from ktui.progress.timeline import Range

_EVERY = timedelta(seconds=5)
_REMEMBERED = timedelta(minutes=10)
"""What was foretold in this time tells how sure it is."""
_UNSURE = 1.25
"""No rate is surer than that: so many times as fast, or as slow."""
_JUDGED_S = 10.0
"""A step that nobody looked at counts as a look of so long: its rate is of all of its time."""
_DECILES = 10
_TELLING = 1_000_000
"""Bytes: smaller copies say nothing of a rate."""


class Foretelling:
    """Learns from the copies of a run, and plays the rest of it.

    Args:
        run: the fold of its journal.
        prior: what earlier runs tell.
    """

    def __init__(self, run: Run, prior: Prior | None) -> None:
        self._run = run
        self._prior = prior
        self._capacity = Capacity(None if prior is None else prior.curve)
        self.headway = Headway(run, self._capacity)
        self._at: datetime | None = None
        self._played_at: datetime | None = None
        self._played = Remaining(0.0, 0.0)
        self._ends: deque[tuple[datetime, float]] = deque()
        """When it was foretold, and the end that was, in seconds since the epoch."""

    @property
    def looked(self) -> bool:
        """Whether anything has been looked at: before that, nothing can be foretold."""
        return self._at is not None

    @property
    def known(self) -> bool:
        """Whether this run has shown how fast it copies."""
        return self._capacity.known

    def change(self, at: datetime, *, throttle: bool) -> None:
        """Take note that it goes on in another way: what was foretold holds no more."""
        self._played_at = None
        self._ends.clear()
        if throttle:
            self.headway.throttled(at)

    def step_over(self, begun: StepBegun, since: datetime, over: StepOver, at: datetime) -> None:
        """Take in a step that came to its end as it was meant to."""
        track = self._run.tracks[over.tp]
        self.headway.over(over.tp, OpenStep(begun, since), at)
        size, took_s = track.planned.size, (at - since).total_seconds()
        if self.headway.looked or size < _TELLING or took_s <= 0:
            return
        leader = begun.before[0] if begun.leader is None else begun.leader
        pairs: list[Pair] = [(leader, broker) for broker in begun.adding]
        seconds, rates = min(took_s, _JUDGED_S), dict.fromkeys(pairs, size / took_s)
        self._capacity.learn(dict.fromkeys(pairs, 1), rates, seconds, self._run.throttled.rates)

    def look(self, now: datetime, seen: Timelines, expected_bytes_s: float) -> None:
        """Take in how it is now; `expected_bytes_s` is the rate of a replica that is not seen."""
        self._at = now
        self.headway.look(now, seen, expected_bytes_s)

    def left_s(self) -> Range:
        """Tell the time left, by what this run has shown and, where it has not, by earlier runs.

        Raises:
            ValueError: nothing has been looked at yet.
        """
        now, prior = self._at, self._prior
        if now is None:
            raise ValueError("nothing has been looked at yet")
        if self._played_at is None or now - self._played_at >= _EVERY or now < self._played_at:
            self._play(now)
        played, passed_s = self._played, (now - (self._played_at or now)).total_seconds()
        low, high = 1 / _UNSURE, _UNSURE
        if not self.known and prior is not None:
            low, high = min(low, 1 / prior.curve.high), max(high, 1 / prior.curve.low)
        told = played.copying_s + played.waiting_s
        least, most = self._told_lately(now)
        return Range(
            max(0.0, min(played.copying_s * low + played.waiting_s - passed_s, least)),
            max(0.0, told - passed_s),
            max(0.0, played.copying_s * high + played.waiting_s - passed_s, most),
        )

    def _play(self, now: datetime) -> None:
        run, headway = self._run, self.headway
        passed_s = 0.0 if run.started_at is None else (now - run.started_at).total_seconds()
        half_s = (self._played.copying_s + self._played.waiting_s) / 2
        joining_s = headway.joining_s
        if joining_s is None:
            joining_s = 0 if self._prior is None else round(self._prior.step_s)
        self._played_at, self._played = (
            now,
            remaining(
                run,
                headway,
                self._capacity.under(run.throttled.rates),
                joining_s=joining_s,
                grown=headway.grown(passed_s + half_s),
            ),
        )
        whole_s = self._played.copying_s + self._played.waiting_s
        self._ends.append((now, now.timestamp() + whole_s))
        while now - self._ends[0][0] > _REMEMBERED:
            self._ends.popleft()

    def _told_lately(self, now: datetime) -> tuple[float, float]:
        """Give the p10 and p90 of what would be left by what was foretold lately."""
        ends = [end - now.timestamp() for _, end in self._ends]
        if len(ends) == 1:
            return ends[0], ends[0]
        cuts = quantiles(ends, n=_DECILES, method="inclusive")
        return cuts[0], cuts[-1]
