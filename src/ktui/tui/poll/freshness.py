"""Facts that the polls show besides partitions: since when all is quiet, and the last census."""

from __future__ import annotations

import math

from ktui.cluster.observation import Census
from ktui.progress.timeline import Phase, Progress
from ktui.tui.draw import format as figures


class Freshness:
    """Tracks from poll to poll since when nothing moves, and whether the last census is current."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._alive: frozenset[int] | None = None
        self._alive_since_s = -math.inf
        """The second since which the same brokers are alive; an older census reflects others."""
        self.quiet_since_s: float | None = None

    def note(self, progress: Progress) -> None:
        """Update from the last poll."""
        self._progress = progress
        self._note_quiet()
        self._note_alive()

    def _note_alive(self) -> None:
        last = self._progress.last
        if last is None:
            return
        alive = last.online
        if self._alive not in (None, alive):
            self._alive_since_s = last.monotonic_s - last.took_s
        self._alive = alive

    def _note_quiet(self) -> None:
        last = self._progress.last
        if last is None or any(
            not t.phase.ended and t.phase is not Phase.SETTLED
            for t in self._progress.timelines.values()
        ):
            self.quiet_since_s = None
        elif self.quiet_since_s is None:
            self.quiet_since_s = last.monotonic_s

    @property
    def census(self) -> Census | None:
        """The last poll of all partitions."""
        return None if self._progress.last is None else self._progress.last.census

    @property
    def census_stands(self) -> bool:
        """Whether all partitions were polled since a broker last went or came."""
        census = self.census
        return census is not None and census.monotonic_s - census.took_s >= self._alive_since_s

    @property
    def as_at(self) -> str:
        """The time of the last census as a text, or that a current one is awaited."""
        census = self.census
        if census is None or not self.census_stands:
            return "looking at all partitions …"
        return f"as at {figures.as_time(census.at)}"

    def missing(self, topics: frozenset[str], asked_at_s: float) -> frozenset[str]:
        """Return the requested topics that the cluster does not have.

        Args:
            topics: the topics.
            asked_at_s: the monotonic second of the request; a poll begun earlier shows nothing.
        """
        last = self._progress.last
        if last is None or last.monotonic_s - last.took_s < asked_at_s:
            return frozenset()
        unread = {failure.topic for failure in last.failures if failure.topic is not None}
        return topics - unread - {tp.topic for tp in last.partitions}
