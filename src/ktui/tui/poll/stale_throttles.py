"""Throttles that somebody has left behind, as far as the view looks at brokers and topics."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ktui.cluster.observation import Observation
from ktui.cluster.ports import ConfigScope
from ktui.cluster.resources import SettingKey
from ktui.progress.left_behind import unneeded_throttles

STALE_S = 65.0
"""Settings are read every 30 s, and forgotten after 60: those from before a move ended are not told
of, for whoever moved takes its throttle off after that."""


class Leftovers:
    """Counts the settings that are there though nothing has needed them for a while."""

    def __init__(self) -> None:
        self._moved_s = -math.inf
        self._topic_moved_s: dict[str, float] = {}
        self.count = 0

    def note(self, seen: Observation, ours: Mapping[SettingKey, frozenset[str]]) -> None:
        """Take in a look, and what the run that is shown has set itself."""
        moving = seen.reassigning
        if moving or ours:
            self._moved_s = seen.monotonic_s
        topics = {tp.topic for tp in moving} | {r.name for r, _ in ours}
        self._topic_moved_s |= dict.fromkeys(topics, seen.monotonic_s)
        self.count = sum(
            self._told(key, seen.monotonic_s) for key in unneeded_throttles(seen, ours)
        )

    def _told(self, key: SettingKey, now_s: float) -> bool:
        moved_s = self._moved_s
        if key[0].scope is ConfigScope.TOPIC:
            moved_s = self._topic_moved_s.get(key[0].name, -math.inf)
        return now_s - moved_s > STALE_S
