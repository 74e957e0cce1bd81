"""Which partitions are still looked at after they left the list of reassignments."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice

from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition

CLOSELY_S = 30.0
"""Looked at in every poll, to learn what became of it."""
FOLLOW_S = 600.0
"""Looked at now and then, for as long as its row is shown."""
SELDOM_S = 4.0
"""Every so often, then: once at least in each 5 s slot of a timeline."""
MOST = 2_000
"""The last to leave; thousands of rows that have ended are not worth a poll of their own."""


class Following:
    """Remembers when each partition left the list, counted from the first poll without it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listed: frozenset[TopicPartition] = frozenset()
        self._left_s: dict[TopicPartition, float] = {}
        """In the order in which they left."""
        self._all_s = -math.inf

    def due(self, listed: Collection[TopicPartition]) -> set[TopicPartition]:
        """Take in a list, and give the partitions besides it that this poll has to look at."""
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
