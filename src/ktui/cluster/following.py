"""Partitions that are still polled after they have left the list of reassignments."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice, takewhile

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition

CLOSELY_S = 30.0
"""Seconds for which a partition that left is read in every poll, to learn its outcome."""
FOLLOW_S = 600.0
"""Seconds for which such a partition is read occasionally: as long as its row is shown."""
SELDOM_S = 4.0
"""The interval of those occasional reads: at least once in each 5 s slot of a timeline."""
MOST = 2_000
"""The most partitions followed, latest first: thousands of ended rows are not worth polling."""


class RecentlyReassigned:
    """Remembers when each partition left the list: at the first poll without that partition."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listed: frozenset[TopicPartition] = frozenset()
        self._left_s: dict[TopicPartition, float] = {}
        """The second at which each partition left, in the order of leaving."""
        self._all_s = -math.inf

    def due(self, listed: Collection[TopicPartition]) -> set[TopicPartition]:
        """Record a list, and return the other partitions that this poll must read."""
        now, before, left = self._clock.monotonic(), self._listed, self._left_s
        self._listed = frozenset(listed)
        for tp in self._listed:
            left.pop(tp, None)
        left |= dict.fromkeys(before - self._listed, now)
        self._forget(now)
        if now - self._all_s >= SELDOM_S:
            self._all_s = now
            return set(left)
        return set(takewhile(lambda tp: now - left[tp] < CLOSELY_S, reversed(left)))

    def _forget(self, now: float) -> None:
        """Forget those that left long ago, and those that left first where there are too many."""
        left = self._left_s
        old = takewhile(lambda tp: now - left[tp] >= FOLLOW_S, left)
        for tp in [*old, *islice(left, max(0, len(left) - MOST))]:
            left.pop(tp, None)
