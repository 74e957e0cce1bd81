"""The scheduled calls of a simulation, in order of time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

ScheduledCall = Callable[[], object]


class CallSchedule:
    """Calls ordered by time in seconds; calls of the same time in the order they were entered."""

    def __init__(self) -> None:
        self._number = itertools.count()
        self._entries: list[tuple[float, int, ScheduledCall]] = []

    def enter(self, at_s: float, action: ScheduledCall) -> None:
        """Schedule `action` for the second `at_s`."""
        heapq.heappush(self._entries, (at_s, next(self._number), action))

    @property
    def next_s(self) -> float:
        """The second of the next call; infinity if there is none."""
        return self._entries[0][0] if self._entries else math.inf

    def take(self) -> ScheduledCall:
        """Remove and return the next call."""
        return heapq.heappop(self._entries)[2]
