"""Polls that a large rehearsal passes over: those that could show nothing but more bytes."""

from __future__ import annotations

from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.execution.engine.decider import QUICK_S
from ktui.execution.engine.in_flight import WORTH
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import RecordChange

MOST_S = 5.0
"""The most seconds between two polls: rates and stalls rest on what is copied between them."""


class Foresight(SourceWrapper):
    """Polls through another source, and knows when the next poll can show news.

    Args:
        source: polls the twin.
        cluster: the twin.
    """

    def __init__(self, source: ObservationSource, cluster: SimulatedCluster) -> None:
        super().__init__(source)
        self._cluster = cluster
        self._changes = self._shown = 0
        """The decisions of the controller so far, and those that the last poll has shown."""
        cluster.listen(self._count)

    def _count(self, _: RecordChange) -> None:
        self._changes += 1

    async def poll(self, interest: Interest) -> Observation:
        self._cluster.catch_up()
        shown = self._changes
        seen = await super().poll(interest)
        self._shown = shown
        return seen

    def pause_s(self, usual_s: float) -> float:
        """Return the seconds until the first poll that can show news.

        It comes about as long after them as the engine's own polls do.

        Args:
            usual_s: the seconds until the engine would poll.
        """
        self._cluster.catch_up()
        if self._changes > self._shown:
            return usual_s
        quiet_s = self._cluster.next_event_s - self._cluster.now_s
        late_s = max(QUICK_S / 2, quiet_s / WORTH)
        return max(usual_s, min(quiet_s + late_s, MOST_S))
