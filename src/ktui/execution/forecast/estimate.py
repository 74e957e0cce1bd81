"""How much of a run has been copied, how fast, and when it may have ended.

Its journal tells when each step began and ended; of a step in flight, what is seen goes before what
the steps before it let expect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.copy_progress import Timelines
from ktui.execution.forecast.forecast import Foretelling
from ktui.execution.run.events import (
    Added,
    Continued,
    Gate,
    JournalEntry,
    Left,
    LimitsChanged,
    NowIn,
    Outage,
    Owned,
    Paused,
    Started,
    StepBegun,
    StepOver,
    ThrottleChanged,
)
from ktui.execution.run.pace import Pace
from ktui.execution.run.run import Run
from ktui.insights.curve import RateCurve
from ktui.insights.prior import Prior
from ktui.progress.timeline import Range

WINDOW = timedelta(minutes=10)
"""What was copied longer ago says nothing of the rate."""
BY_EARLIER_RUNS = "by earlier runs"
"""Stands with a time that the run's own rate does not tell yet."""
LEAST = timedelta(seconds=20)
"""A rate from less is none."""
STANDSTILL = timedelta(seconds=20)
"""What has not grown for longer is not being copied."""
_PARTS = 6
_SPACING = timedelta(seconds=5)
_HISTORY = 30
"""Points into which the journal's last ten minutes are put at the first look."""
_INTERRUPTS = (Paused, Continued, Gate, Outage, Owned, Left, ThrottleChanged, Added)
"""After these the rate is another one."""
_TURNS = (*_INTERRUPTS, LimitsChanged)
"""After these what was foretold holds no more."""


class CopiedBytes(msgspec.Struct, frozen=True):
    """The copies of a run, in bytes as of its start; what is written meanwhile comes on top."""

    done: int = 0
    whole: int = 0
    """0 where nothing is to be copied, or no size is known."""
    bytes_s: float | None = None
    left_s: Range | None = None
    """None while nothing goes on, or not for long enough; where there is nothing to copy it goes
    by the number of partitions."""
    by_earlier_runs: bool = False
    """Whether that goes by the rates of earlier runs: this one has not gone on for long enough."""

    @property
    def share(self) -> float | None:
        """Share copied, 0 to 1; None where there is nothing to copy, or sizes are not known."""
        return self.done / self.whole if self.whole else None


UNTOLD = CopiedBytes()
"""While nothing is known."""


class _Spell(msgspec.Struct, frozen=True):
    """Work that was done between two moments, evenly."""

    since: datetime
    until: datetime
    work: float

    def after(self, moment: datetime) -> float:
        """Give the part of it that was done after a moment."""
        if moment <= self.since:
            return self.work
        if moment >= self.until:
            return 0.0
        return self.work * ((self.until - moment) / (self.until - self.since))


class Estimate:
    """Follows a run: what is new of its journal, and a look now and then.

    Work is bytes that are copied; of a run that copies none, partitions that reach their end.

    Args:
        run: the fold of its journal.
        prior_of: tells how fast earlier runs on a cluster went, by its id; asked once.
    """

    def __init__(
        self, run: Run, prior_of: Callable[[str], Prior | None] = lambda _cluster_id: None
    ) -> None:
        self.run = run
        self._prior_of = prior_of
        self._prior: Prior | None = None
        self._foretelling = Foretelling(run, None)
        self.pace = Pace()
        """Of the process that owns the run: what went before it, it does not know."""
        self._begun: dict[TopicPartition, StepBegun] = {}
        self._begun_at: dict[TopicPartition, datetime] = {}
        self._first_at: dict[TopicPartition, datetime] = {}
        self._copied: deque[_Spell] = deque()
        self._ended: deque[_Spell] = deque()
        self._since: datetime | None = None
        """Since when the run goes on without an interruption."""
        self._under_way = 0
        self._points: deque[tuple[datetime, int]] = deque()
        self._grew_at: datetime | None = None

    def take(self, entries: Iterable[JournalEntry]) -> None:
        """Take in what is new of the journal, the run knows it already."""
        for entry in entries:
            event, at = entry.event, entry.at
            if isinstance(event, _TURNS):
                self._foretelling.change(at, throttle=isinstance(event, ThrottleChanged))
            if isinstance(event, _INTERRUPTS):
                self._since = at
                self._points.clear()
                if isinstance(event, Owned):
                    self.pace = Pace(self._prior)
            elif isinstance(event, Started):
                self._prior = self._prior_of(event.cluster_id)
                self._foretelling = Foretelling(self.run, self._prior)
            elif isinstance(event, StepBegun):
                self._begun[event.tp], self._begun_at[event.tp] = event, at
                self._first_at.setdefault(event.tp, at)
            elif isinstance(event, StepOver):
                self._step_over(event, at)
            elif isinstance(event, NowIn) and event.state.ended:
                self._begun.pop(event.tp, None)
                since = self._first_at.pop(event.tp, at)
                self._ended.append(_Spell(since, at, 1))

    def _step_over(self, event: StepOver, at: datetime) -> None:
        begun = self._begun.pop(event.tp, None)
        if begun is None or not event.reached:
            return
        since = self._begun_at[event.tp]
        self._foretelling.step_over(begun, since, event, at)
        if begun.adding:
            size = self.run.tracks[event.tp].planned.size
            self._copied.append(_Spell(since, at, size * len(begun.adding)))
            self.pace.learn_step(size, (at - since).total_seconds())

    def look(self, now: datetime, seen: Timelines | None = None) -> None:
        """Take in how it is now.

        Args:
            now: the moment.
            seen: what is seen of the partitions; where one in flight is not, it is taken to be
                copied as fast as those before it were.
        """
        self._foretelling.look(now, seen or {}, self.pace.known_bytes_s)
        done = self._foretelling.headway.done
        flying = [
            _Spell(track.step.at, now, done(track))
            for track in self.run.flying.values()
            if track.step is not None
        ]
        self._under_way = int(sum(spell.work for spell in flying))
        points = self._points
        if not points:
            points.extend(self._history(now, flying))
        if points and self._work > points[-1][1]:
            self._grew_at = now
        if len(points) > 1 and points[-1][0] - points[-2][0] < _SPACING:
            points.pop()
        points.append((now, max(self._work, points[-1][1] if points else 0)))
        while now - points[0][0] > WINDOW:
            points.popleft()

    def _history(self, now: datetime, flying: list[_Spell]) -> Iterable[tuple[datetime, int]]:
        """Give how far the run was in the last minutes, by its journal."""
        spells = self._copied if self.run.copies.whole else self._ended
        while spells and now - spells[0].until > WINDOW:
            spells.popleft()
        known = [spell for spell in (*spells, *flying) if spell.work]
        since = max(self._since or self.run.started_at or now, now - WINDOW)
        self._grew_at = max((spell.until for spell in known), default=None)
        moments = (since + (now - since) * part / _HISTORY for part in range(_HISTORY))
        for moment in moments if since < now else ():
            yield moment, int(self._work - sum(spell.after(moment) for spell in known))

    @property
    def copied(self) -> CopiedBytes:
        """How far it is, and how long it takes yet."""
        whole = self.run.copies.whole
        done = self._work if whole else 0
        own = self._rates()
        if own is None and not self._by_earlier_runs:
            return CopiedBytes(done, whole)
        bytes_s = None if own is None or not whole else own.middle
        if own is not None and not (whole and self._foretelling.known):
            left = (whole or len(self.run.tracks)) - self._work
            lasts = Range(left / own.high, left / own.middle, left / own.low)
        else:
            lasts = self._foretelling.left_s()
        return CopiedBytes(done, whole, bytes_s, lasts, by_earlier_runs=own is None)

    @property
    def _work(self) -> int:
        copies = self.run.copies
        return min(copies.whole, copies.done + self._under_way) if copies.whole else self.run.over

    def _rates(self) -> Range | None:
        """Give the mean rate, between those of the slowest and the fastest part of the window."""
        points = self._points
        if self._held or not self._tells:
            return None
        if self._grew_at is None or points[-1][0] - self._grew_at > STANDSTILL:
            return None
        mean = _rate(points[0], points[-1])
        if mean <= 0.0:
            return None
        cuts = [points[n * (len(points) - 1) // _PARTS] for n in range(_PARTS + 1)]
        parts = [_rate(a, b) for a, b in pairwise(cuts) if b[0] > a[0]]
        return Range(max(mean / 3, min(parts)), mean, max(parts))

    @property
    def _held(self) -> bool:
        """Whether nothing new is begun."""
        run = self.run
        return bool(run.pauses.whole) or run.gate.shut or run.outage is not None

    @property
    def _tells(self) -> bool:
        """Whether the run has gone on for long enough to have a rate."""
        points = self._points
        return len(points) > 1 and points[-1][0] - points[0][0] >= LEAST

    @property
    def _by_earlier_runs(self) -> bool:
        """Whether earlier runs tell how long this one takes that has no rate of its own yet."""
        sizes = sum(
            track.planned.size
            for track in self.run.flying.values()
            if track.step is not None and track.step.begun.adding
        )
        told = self._foretelling.looked and not self._held and not self._tells and sizes > 0
        return told and self._prior is not None and self._carries(self._prior.curve)

    def _carries(self, curve: RateCurve) -> bool:
        """Whether earlier runs have shown how fast it goes under the throttle of this one."""
        rates, tracks = self.run.throttled.rates, self.run.tracks.values()
        onto = {b for t in tracks for b in t.planned.target if b not in t.original}
        return all(curve.carries(rates.of(broker)) for broker in onto)


def _rate(start: tuple[datetime, int], end: tuple[datetime, int]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0]).total_seconds()
