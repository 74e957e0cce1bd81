"""The events of a run's throttle by partition, and the resources whose settings it changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigResource, ConfigScope, Verdict
from ktui.cluster.settings import LEADER_REPLICAS, REPLICAS, parse_throttled_list
from ktui.execution.run.events import Configure, Configured, JournalEntry, ThrottleChanged
from ktui.execution.run.text import describe_event
from ktui.progress.news import EventSeverity
from ktui.progress.timeline import Event

_WORDS = {
    ConfigOp.APPEND: "to be throttled",
    ConfigOp.SUBTRACT: "no longer to be throttled",
}


class ThrottleNews:
    """Collects, for each partition, the events about throttles of topics and brokers.

    Args:
        run: the run's name.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._of: defaultdict[TopicPartition, list[Event]] = defaultdict(list)
        self._listed: defaultdict[TopicPartition, set[str]] = defaultdict(set)
        self._changed: set[ConfigResource] = set()

    def of(self, tp: TopicPartition) -> list[Event]:
        """Return the throttle events of a partition, oldest first."""
        return self._of.get(tp, [])

    def take(self, entries_: Iterable[JournalEntry]) -> None:
        """Apply new entries of the journal."""
        for entry in entries_:
            match entry.event:
                case Configure() as asked:
                    self._asked(entry, asked)
                case Configured() as answer:
                    self._answered(entry, answer)
                case ThrottleChanged() as changed:
                    for tp, listed in self._listed.items():
                        if listed:
                            self._add_event(entry, tp, describe_event(changed))

    def changed(self) -> tuple[set[str], set[int]]:
        """Return the topics and brokers whose settings were changed since the last call."""
        changed, self._changed = self._changed, set()
        topics = {r.name for r in changed if r.scope is ConfigScope.TOPIC}
        return topics, {int(r.name) for r in changed if r.scope is ConfigScope.BROKER}

    def _asked(self, entry: JournalEntry, asked: Configure) -> None:
        for change in asked.changes:
            if change.key not in REPLICAS or change.op not in _WORDS:
                continue
            for tp, broker in _replicas(change.resource.name, change.value or ""):
                listed = self._listed[tp]
                side = "as leader on " if change.key == LEADER_REPLICAS else "on "
                place = f"{side}broker {broker}"
                listed.add(place) if change.op is ConfigOp.APPEND else listed.discard(place)
                self._add_event(entry, tp, f"{_WORDS[change.op]} {place}")

    def _answered(self, entry: JournalEntry, answer: Configured) -> None:
        self._changed.add(answer.resource)
        if answer.verdict is Verdict.ACCEPTED or answer.resource.scope is not ConfigScope.TOPIC:
            return
        for tp in list(self._listed):
            if tp.topic == answer.resource.name:
                self._add_event(entry, tp, describe_event(answer), EventSeverity.WARNING)

    def _add_event(
        self,
        entry: JournalEntry,
        tp: TopicPartition,
        words: str,
        severity: EventSeverity = EventSeverity.NEWS,
    ) -> None:
        event = Event(entry.at, f"run {self._run}: {words}", tp, severity=severity)
        self._of[tp].append(event)


def _replicas(topic: str, listed: str) -> Iterator[tuple[TopicPartition, str]]:
    for each in sorted(parse_throttled_list(listed)):
        partition, _, broker = each.partition(":")
        if partition.isdecimal():
            yield TopicPartition(topic, int(partition)), broker
