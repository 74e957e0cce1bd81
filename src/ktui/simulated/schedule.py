"""What is due in a simulation, in order of time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

ScheduledCall = Callable[[], object]


class Timetable:
    """Deeds by their second; those of the same second in the order they were entered."""

    def __init__(self) -> None:
        self._number = itertools.count()
        self._entries: list[tuple[float, int, ScheduledCall]] = []

    def enter(self, at_s: float, deed: ScheduledCall) -> None:
        """Have `deed` done at the second `at_s`."""
        heapq.heappush(self._entries, (at_s, next(self._number), deed))

    @property
    def next_s(self) -> float:
        """The second of the next deed; infinity if there is none."""
        return self._entries[0][0] if self._entries else math.inf

    def take(self) -> ScheduledCall:
        """Take the next deed off."""
        return heapq.heappop(self._entries)[2]
