"""Throttles left behind by somebody, on the brokers and topics that the view polls."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ktui.cluster.left_behind import set_throttles, unneeded_throttles
from ktui.cluster.observation import Observation
from ktui.cluster.ports import ConfigScope
from ktui.cluster.settings import SettingKey

STALE_S = 65.0
"""Seconds after which a throttle counts as left behind that nothing has needed since.

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
        self._needed_s: dict[SettingKey, float] = {}
        """When each throttle last had a replica that catches up under it, or a move."""
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
        unneeded = unneeded_throttles(last, ours)
        self._needed_s |= dict.fromkeys(set_throttles(last) - unneeded, last.monotonic_s)
        self.count = sum(self._is_stale(key, last.monotonic_s) for key in unneeded)

    def _is_stale(self, key: SettingKey, now_s: float) -> bool:
        moved_s = self._moved_s
        needed_s = self._needed_s.get(key, -math.inf)
        if key[0].scope is ConfigScope.TOPIC:
            topic_moved_s = self._topic_moved_s.get(key[0].name, -math.inf)
            moved_s = max(topic_moved_s, self._others_moved_s)
        return now_s - max(moved_s, needed_s) > STALE_S
