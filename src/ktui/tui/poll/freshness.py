"""How fresh the facts of polls are: since when all is quiet, and whether a census is current."""

from __future__ import annotations

import math

from ktui.cluster.observation import Census, Observation
from ktui.progress.timeline import Phase, Progress
from ktui.tui.draw import format as figures


class Freshness:
    """Tracks from poll to poll since when nothing moves, and since when brokers are the same."""

    def __init__(self) -> None:
        self._alive: frozenset[int] | None = None
        self._alive_since_s = -math.inf
        """The second since which the same brokers are alive; an older census reflects others."""
        self.quiet_since_s: float | None = None

    def note(self, progress: Progress) -> None:
        """Update from the last poll."""
        if progress.last is None:
            self.quiet_since_s = None
            return
        self._note_quiet(progress, progress.last)
        self._note_alive(progress.last)

    def _note_alive(self, last: Observation) -> None:
        alive = last.online
        if self._alive not in (None, alive):
            self._alive_since_s = last.monotonic_s - last.took_s
        self._alive = alive

    def _note_quiet(self, progress: Progress, last: Observation) -> None:
        if any(
            not t.phase.ended and t.phase is not Phase.SETTLED for t in progress.timelines.values()
        ):
            self.quiet_since_s = None
        elif self.quiet_since_s is None:
            self.quiet_since_s = last.monotonic_s

    def is_current(self, census: Census | None) -> bool:
        """Return whether all partitions were polled since a broker last went or came."""
        return census is not None and census.monotonic_s - census.took_s >= self._alive_since_s

    def as_at(self, census: Census | None) -> str:
        """Return the time of the last census as a text, or that a current one is awaited."""
        if census is None or not self.is_current(census):
            return "looking at all partitions …"
        return f"as at {figures.as_time(census.at)}"


def missing_topics(
    topics: frozenset[str], asked_at_s: float, last: Observation | None
) -> frozenset[str]:
    """Return the requested topics that the cluster does not have.

    Args:
        topics: the topics.
        asked_at_s: the monotonic second of the request; a poll begun earlier shows nothing.
        last: the last poll.
    """
    if not topics or last is None or last.monotonic_s - last.took_s < asked_at_s:
        return frozenset()
    unread = {failure.topic for failure in last.failures if failure.topic is not None}
    return topics - unread - {tp.topic for tp in last.partitions}
