"""Throttles left behind by somebody, on the brokers and topics that the view polls."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ktui.cluster.observation import Observation
from ktui.cluster.ports import ConfigScope
from ktui.cluster.resources import SettingKey
from ktui.progress.left_behind import unneeded_throttles

STALE_S = 65.0
"""Seconds without a move after which a throttle counts as left behind.

Settings are read every 30 s, and forgotten after 60. Those read before a move ended do not count:
the owner of a move removes its throttle only after that.
"""


class StaleThrottles:
    """Counts the throttle settings that nothing has needed for a while."""

    def __init__(self) -> None:
        self._moved_s = -math.inf
        self._others_moved_s = -math.inf
        """When moves of others went on last: they may still need all of their throttles."""
        self._topic_moved_s: dict[str, float] = {}
        self.count = 0

    def note(self, last: Observation, ours: Mapping[SettingKey, frozenset[str]]) -> None:
        """Update from a poll, and from the settings that the attached run has made itself."""
        moving = last.reassigning
        if moving or ours:
            self._moved_s = last.monotonic_s
        our_topics = {r.name for r, _ in ours}
        if any(tp.topic not in our_topics for tp in moving):
            self._others_moved_s = last.monotonic_s
        topics = {tp.topic for tp in moving} | our_topics
        self._topic_moved_s |= dict.fromkeys(topics, last.monotonic_s)
        self.count = sum(
            self._is_stale(key, last.monotonic_s) for key in unneeded_throttles(last, ours)
        )

    def _is_stale(self, key: SettingKey, now_s: float) -> bool:
        moved_s = self._moved_s
        if key[0].scope is ConfigScope.TOPIC:
            topic_moved_s = self._topic_moved_s.get(key[0].name, -math.inf)
            moved_s = max(topic_moved_s, self._others_moved_s)
        return now_s - moved_s > STALE_S
