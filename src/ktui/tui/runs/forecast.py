"""How much of a run has been copied, how fast, and when it may have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.events import Continued, Entry, Gate, Left, Owned, Paused
from ktui.execution.run import Run, Track
from ktui.progress.timeline import Lane, Range, Role, Timeline

WINDOW = timedelta(minutes=10)
"""What was copied longer ago says nothing of the rate."""
LEAST = timedelta(seconds=20)
"""A rate from less is none."""
STANDSTILL = timedelta(seconds=20)
"""What has not grown for longer is not being copied."""
_PARTS = 6
_SPACING = timedelta(seconds=5)
_INTERRUPTS = (Paused, Continued, Gate, Owned, Left)


class Copied(msgspec.Struct, frozen=True):
    """The copies of a run, in bytes as of its start; what is written meanwhile comes on top."""

    done: int = 0
    whole: int = 0
    """0 where nothing is to be copied, or no size is known."""
    bytes_s: float | None = None
    left_s: Range | None = None
    """None while nothing is copied, or not for long enough."""

    @property
    def share(self) -> float | None:
        """Share copied, 0 to 1; None where there is nothing to copy, or sizes are not known."""
        return self.done / self.whole if self.whole else None


class Forecast:
    """Tells how far the copies of a run are, by its journal and by what is seen under way."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._under_way = 0
        self._points: deque[tuple[datetime, int]] = deque()
        self._grew_at: datetime | None = None

    def take(self, entries: Iterable[Entry]) -> None:
        """Note what the journal says; a pause makes the rate start anew."""
        for entry in entries:
            if isinstance(entry.event, _INTERRUPTS):
                self._points.clear()

    def look(self, timelines: Mapping[TopicPartition, Timeline], now: datetime) -> None:
        """Note what is under way by now."""
        self._under_way = sum(_under_way(t, timelines.get(t.tp)) for t in self._run.flying.values())
        points = self._points
        if points and self.done > points[-1][1]:
            self._grew_at = now
        if points and now - points[-1][0] < _SPACING and len(points) > 1:
            points.pop()
        points.append((now, max(self.done, points[-1][1] if points else 0)))
        while now - points[0][0] > WINDOW:
            points.popleft()

    @property
    def done(self) -> int:
        """Bytes copied so far, those of the steps under way with them."""
        return min(self._run.copies.whole, self._run.copies.done + self._under_way)

    @property
    def copied(self) -> Copied:
        """How far it is, and how long it takes yet."""
        rates = self._rates()
        if rates is None:
            return Copied(self.done, self._run.copies.whole)
        left = self._run.copies.whole - self.done
        lasts = Range(left / rates.high, left / rates.middle, left / rates.low)
        return Copied(self.done, self._run.copies.whole, rates.middle, lasts)

    def _rates(self) -> Range | None:
        """Give the mean rate, between those of the slowest and the fastest part of the window."""
        points = self._points
        if len(points) <= 1 or points[-1][0] - points[0][0] < LEAST:
            return None
        if self._grew_at is None or points[-1][0] - self._grew_at > STANDSTILL:
            return None
        mean = _rate(points[0], points[-1])
        if mean <= 0.0:
            return None
        cuts = [points[n * (len(points) - 1) // _PARTS] for n in range(_PARTS + 1)]
        parts = [_rate(a, b) for a, b in pairwise(cuts) if b[0] > a[0]]
        return Range(max(mean / 3, min(parts)), mean, max(parts))


def _under_way(track: Track, timeline: Timeline | None) -> int:
    if timeline is None or track.step is None:
        return 0
    lanes = (timeline.lanes.get(broker) for broker in track.step.begun.adding)
    return int(sum(_share(lane) for lane in lanes if lane is not None) * track.planned.size)


def _share(lane: Lane) -> float:
    if lane.role in (Role.IN_SYNC, Role.LEADER):
        return 1.0
    return lane.share or 0.0 if lane.role is Role.ADDING else 0.0


def _rate(start: tuple[datetime, int], end: tuple[datetime, int]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0]).total_seconds()
