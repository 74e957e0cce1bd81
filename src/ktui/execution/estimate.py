"""How much of a run has been copied, how fast, and when it may have ended.

Its journal tells when each step began and ended; of a step in flight, what is seen goes before what
the steps before it let expect.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.add_events import Added
from ktui.execution.events import (
    Continued,
    Entry,
    Gate,
    Left,
    NowIn,
    Outage,
    Owned,
    Paused,
    Started,
    StepBegun,
    StepOver,
)
from ktui.execution.pace import Pace
from ktui.execution.run import Run
from ktui.execution.throttle_events import ThrottleChanged
from ktui.execution.track import OpenStep, Track
from ktui.insights.prior import Prior
from ktui.progress.timeline import Lane, Range, Role, Timeline

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


class Copied(msgspec.Struct, frozen=True):
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


UNTOLD = Copied()
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

    def take(self, entries: Iterable[Entry]) -> None:
        """Take in what is new of the journal, the run knows it already."""
        for entry in entries:
            event, at = entry.event, entry.at
            if isinstance(event, _INTERRUPTS):
                self._since = at
                self._points.clear()
                if isinstance(event, Owned):
                    self.pace = Pace(self._prior)
            elif isinstance(event, Started):
                self._prior = self._prior_of(event.cluster_id)
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
        if begun is not None and begun.adding and event.reached:
            size, since = self.run.tracks[event.tp].planned.size, self._begun_at[event.tp]
            self._copied.append(_Spell(since, at, size * len(begun.adding)))
            self.pace.learn_step(size, (at - since).total_seconds())

    def look(self, now: datetime, seen: Mapping[TopicPartition, Timeline] | None = None) -> None:
        """Take in how it is now.

        Args:
            now: the moment.
            seen: what is seen of the partitions; where one in flight is not, it is taken to be
                copied as fast as those before it were.
        """
        flying = [
            _Spell(track.step.at, now, self._share(track, track.step, now, seen or {}))
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
    def copied(self) -> Copied:
        """How far it is, and how long it takes yet."""
        whole = self.run.copies.whole
        done = self._work if whole else 0
        own = self._rates()
        rates = own or self._earlier_rates()
        if rates is None:
            return Copied(done, whole)
        left = (whole or len(self.run.tracks)) - self._work
        lasts = Range(left / rates.high, left / rates.middle, left / rates.low)
        bytes_s = None if own is None or not whole else own.middle
        return Copied(done, whole, bytes_s, lasts, by_earlier_runs=own is None)

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

    def _earlier_rates(self) -> Range | None:
        """Give what brokers took in of earlier runs, by how many replicas each is adding now."""
        prior, onto, sizes = self._prior, Counter[int](), 0
        for track in self.run.flying.values():
            adding = () if track.step is None else track.step.begun.adding
            onto.update(adding)
            sizes += len(adding) * track.planned.size
        if prior is None or self._held or self._tells or not sizes:
            return None
        throttle, curve = self.run.throttled.rates, prior.curve
        free = sum(curve.bytes_s(count, throttle.of(broker)) for broker, count in onto.items())
        byte_s = prior.step_s / sizes  # what a byte takes beside being copied
        return Range(*(1 / (1 / (part * free) + byte_s) for part in (curve.low, 1.0, curve.high)))

    def _share(
        self,
        track: Track,
        step: OpenStep,
        now: datetime,
        seen: Mapping[TopicPartition, Timeline],
    ) -> float:
        """Give the bytes that a step in flight has copied."""
        size, timeline = track.planned.size, seen.get(track.tp)
        if timeline is None:
            expected = self.pace.known_bytes_s * (now - step.at).total_seconds()
            return len(step.begun.adding) * max(0.0, min(size, expected))
        lanes = (timeline.lanes.get(broker) for broker in step.begun.adding)
        return sum(_share(lane) for lane in lanes if lane is not None) * size


def _share(lane: Lane) -> float:
    if lane.role in (Role.IN_SYNC, Role.LEADER):
        return 1.0
    return lane.share or 0.0 if lane.role is Role.ADDING else 0.0


def _rate(start: tuple[datetime, int], end: tuple[datetime, int]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0]).total_seconds()
