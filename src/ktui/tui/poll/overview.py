"""What polls add up to: totals, brokers that are down, outages, and throttles left behind."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from ktui.cluster.left_behind import set_throttles, unneeded_throttles
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigScope
from ktui.cluster.settings import SettingKey
from ktui.progress.fold import ENDED_FOR_S
from ktui.progress.health import HealthCounts, count_unhealthy
from ktui.progress.news import EventSeverity
from ktui.progress.summary import BrokerLoad, Totals, broker_loads, totals
from ktui.progress.timeline import Event, Phase, Progress, Timeline, in_time_order
from ktui.tui.draw import format as figures


class Overview(msgspec.Struct, frozen=True):
    """The totals, the number of brokers, those that are down, and partitions in trouble."""

    totals: Totals = Totals()
    brokers: int = 0
    down: tuple[int, ...] = ()
    health: HealthCounts = HealthCounts()
    stalled: tuple[TopicPartition, ...] = ()
    """The stalled partitions, the longest first."""
    loads: Mapping[int, BrokerLoad] = msgspec.field(default_factory=dict)
    """The load of each broker."""

    @property
    def open(self) -> int:
        """Partitions that are being reassigned."""
        return self.totals.moving + self.totals.stalled


def overview(progress: Progress) -> Overview:
    """Summarize a progress. A broker that only a replica list names counts as down."""
    last = progress.last
    if last is None:
        return Overview()
    known = _known_brokers(last)
    down = tuple(sorted(broker for broker in known if not last.alive(broker)))
    return Overview(
        totals(_without_long_over(progress, last.at)),
        len(known),
        down,
        count_unhealthy(last),
        _stalled(progress),
        broker_loads(progress),
    )


def _stalled(progress: Progress) -> tuple[TopicPartition, ...]:
    found = [t for t in progress.timelines.values() if t.phase is Phase.STALLED]
    return tuple(t.tp for t in sorted(found, key=lambda t: t.stall.since_s if t.stall else 0.0))


def ended_long_ago(timeline: Timeline, now: datetime) -> bool:
    """Return whether a move ended so long ago that only its run's recording still shows it."""
    return timeline.ended_at is not None and now - timeline.ended_at > timedelta(
        seconds=ENDED_FOR_S
    )


def _without_long_over(progress: Progress, now: datetime) -> Progress:
    kept = {tp: t for tp, t in progress.timelines.items() if not ended_long_ago(t, now)}
    return msgspec.structs.replace(progress, timelines=kept)


def _known_brokers(last: Observation) -> set[int]:
    return set(last.brokers).union(*(state.replicas for state in last.partitions.values()))


class DownBrokers:
    """Tracks for each broker that is down since when; unknown for those down at the first poll."""

    def __init__(self) -> None:
        self._polled = False
        self._since_s: dict[int, float | None] = {}

    @property
    def since_s(self) -> Mapping[int, float | None]:
        """The brokers that are down, each with the monotonic second of the first poll without it.

        None for a broker that was down when polling began.
        """
        return self._since_s

    def note(self, down: Iterable[int], at_s: float) -> None:
        """Update from a poll at a monotonic second."""
        first = at_s if self._polled else None
        self._since_s = {broker: self._since_s.get(broker, first) for broker in down}
        self._polled = True


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
