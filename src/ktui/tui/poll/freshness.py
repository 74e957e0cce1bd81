"""What the polls tell beside the partitions themselves: for how long all is quiet, and of when."""

from __future__ import annotations

import math

from ktui.cluster.observation import Census
from ktui.progress.timeline import Phase, Progress
from ktui.tui.draw import format as figures


class Lookout:
    """Notes what changes from poll to poll."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._alive: frozenset[int] | None = None
        self._alive_since_s = -math.inf
        """Since when the brokers alive are the same: an older census tells of others."""
        self.quiet_since_s: float | None = None

    def note(self, progress: Progress) -> None:
        """Take in what was seen last."""
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
        """The last look at all partitions."""
        return None if self._progress.last is None else self._progress.last.census

    @property
    def census_stands(self) -> bool:
        """Whether all partitions were looked at since a broker last went or came."""
        census = self.census
        return census is not None and census.monotonic_s - census.took_s >= self._alive_since_s

    @property
    def as_at(self) -> str:
        """Say of when the last look at all partitions is."""
        census = self.census
        if census is None or not self.census_stands:
            return "looking at all partitions …"
        return f"as at {figures.as_time(census.at)}"

    def missing(self, topics: frozenset[str], asked_at_s: float) -> frozenset[str]:
        """Give the topics that the cluster says it does not have, asked for since a second."""
        last = self._progress.last
        if last is None or last.monotonic_s - last.took_s < asked_at_s:
            return frozenset()
        unread = {failure.topic for failure in last.failures if failure.topic is not None}
        return topics - unread - {tp.topic for tp in last.partitions}
