"""Partitions that are still polled after they have left the list of reassignments."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice

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
        now, before = self._clock.monotonic(), self._listed
        self._listed = frozenset(listed)
        left = {tp: since for tp, since in self._left_s.items() if now - since < FOLLOW_S}
        left |= dict.fromkeys(before - self._listed, now)
        current = [item for item in left.items() if item[0] not in self._listed]
        self._left_s = dict(islice(current, max(0, len(current) - MOST), None))
        if now - self._all_s >= SELDOM_S:
            self._all_s = now
            return set(self._left_s)
        return {tp for tp, since in self._left_s.items() if now - since < CLOSELY_S}
