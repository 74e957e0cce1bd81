"""Outages as events: when the cluster was lost and when it answered again, which no poll shows."""

from __future__ import annotations

from collections import deque
from datetime import datetime

import msgspec

from ktui.progress.news import EventSeverity
from ktui.progress.timeline import Event, in_time_order
from ktui.tui.draw import format as figures

_KEPT = 1_000


class ClusterOutage(msgspec.Struct, frozen=True):
    """Why the whole cluster does not answer."""

    reason: str
    """A short reason that stays the same from attempt to attempt: "connection refused"."""
    details: str
    """The attempt and its place, the cause, and what to do about it."""


class Outages:
    """Records outages as they begin and end."""

    def __init__(self) -> None:
        self.current: ClusterOutage | None = None
        self._since_s = 0.0
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._merged: tuple[Event, ...] | None = None
        """The last merge, while no event was added to it."""
        self._merged_with: tuple[Event, ...] = ()

    def lost(
        self, outage: ClusterOutage, at: datetime, since_s: float | None, now_s: float
    ) -> None:
        """Record that the cluster does not answer.

        Args:
            outage: why.
            at: when the poll failed.
            since_s: the monotonic second of the last answer; None where there was none.
            now_s: the monotonic second now.
        """
        if self.current is None:
            verb = "not reached" if since_s is None else "lost"
            self._since_s = now_s if since_s is None else since_s
            words = f"cluster {verb}: {outage.reason}"
            self.note(Event(at, words, severity=EventSeverity.TROUBLE))
        self.current = outage

    def answered(self, at: datetime, now_s: float) -> None:
        """Record an answer, which ends an outage."""
        if self.current is not None:
            lasted = figures.as_duration(now_s - self._since_s)
            self.note(Event(at, f"cluster answers again after {lasted}"))
        self.current = None

    def note(self, event: Event) -> None:
        """Record another event that no poll shows."""
        self._events.append(event)
        self._merged = None

    def copy(self) -> Outages:
        """Return an independent copy."""
        other = Outages()
        other.current, other._since_s = self.current, self._since_s
        other._events.extend(self._events)
        return other

    def merge(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return the events of the polls with these merged in, by time."""
        if not self._events:
            return events
        if self._merged is None or self._merged_with is not events:
            self._merged_with = events
            self._merged = tuple(in_time_order(self._events, events))
        return self._merged
