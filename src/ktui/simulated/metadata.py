"""Brokers' metadata: the controller's records, slightly late."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.controller import Controller
from ktui.simulated.controller.records import RecordChange, Registration

KnownRecord = tuple[str, Registration]
"""A topic id and a partition's record."""


class _Members(NamedTuple):
    """The members of the cluster that brokers know from a certain second on."""

    from_s: float
    registered: frozenset[int]
    fenced: frozenset[int]


class Metadata:
    """The brokers' view of the cluster.

    The cost follows the changes within the lag, not the size of the cluster.

    Args:
        lag_s: seconds by which every broker is behind the controller.
    """

    def __init__(self, controller: Controller, lag_s: float) -> None:
        self._controller = controller
        self.lag_s = lag_s
        self._unseen: deque[tuple[float, TopicPartition]] = deque()
        self._before: dict[str, dict[int, deque[KnownRecord | None]]] = {}
        self._versions: Counter[str] = Counter()
        self._members = deque([_Members(0.0, controller.registered, controller.fenced)])

    def changed(self, change: RecordChange, now_s: float) -> None:
        """Record a decision, which brokers learn after the lag."""
        self._versions[change.tp.topic] += 1
        if self.lag_s <= 0:
            return
        tp, before = change.tp, change.before
        partitions = self._before.setdefault(tp.topic, {})
        known = None if before is None else (change.topic_id, before)
        partitions.setdefault(tp.partition, deque()).append(known)
        self._unseen.append((now_s + self.lag_s, tp))

    def note_members(self, now_s: float) -> None:
        """Record the registered and the fenced brokers if they have changed."""
        last, controller = self._members[-1], self._controller
        now = _Members(now_s + self.lag_s, controller.registered, controller.fenced)
        if now[1:] != last[1:]:
            self._members.append(now)

    @property
    def complete_from_s(self) -> float:
        """The second from which brokers know everything decided so far."""
        unseen_s = self._unseen[-1][0] if self._unseen else 0.0
        return max(unseen_s, self._members[-1].from_s)

    @property
    def fenced(self) -> frozenset[int]:
        """The brokers that are fenced or not registered, as brokers know them."""
        return self._members[0].fenced

    @property
    def registered(self) -> frozenset[int]:
        """The registered brokers, as brokers know them."""
        return self._members[0].registered

    def learn(self, now_s: float) -> None:
        """Show brokers the decisions whose lag has passed."""
        while self._unseen and self._unseen[0][0] <= now_s:
            _, tp = self._unseen.popleft()
            self._versions[tp.topic] += 1
            partitions = self._before[tp.topic]
            partitions[tp.partition].popleft()
            if not partitions[tp.partition]:
                del partitions[tp.partition]
            if not partitions:
                del self._before[tp.topic]
        while len(self._members) > 1 and self._members[1].from_s <= now_s:
            self._members.popleft()

    def topics(self) -> list[str]:
        """Return the names of all topics that brokers know, sorted."""
        settled = self._controller.topics.keys() - self._before.keys()
        return sorted({*settled, *(name for name in self._before if self.topic(name))})

    def version(self, name: str) -> int:
        """Return a number for what brokers know of a topic: with the same one, that is the same."""
        return self._versions[name]

    def topic(self, name: str) -> dict[TopicPartition, KnownRecord]:
        """Return the partitions of a topic, by number; empty if brokers know no such topic."""
        topic = self._controller.topics.get(name)
        if topic is not None and name not in self._before:
            settled = enumerate(topic.partitions)
            return {TopicPartition(name, n): (topic.id, known) for n, known in settled}
        found = {}
        for number in sorted(self._numbers(name)):
            tp = TopicPartition(name, number)
            known = self.partition(tp)
            if known is not None:
                found[tp] = known
        return found

    def partition(self, tp: TopicPartition) -> KnownRecord | None:
        """Return one partition as brokers know it; None if they know no such partition."""
        unseen = self._before.get(tp.topic, {}).get(tp.partition)
        if unseen:
            return unseen[0]
        known = self._controller.get(tp)
        return None if known is None else (self._controller.topics[tp.topic].id, known)

    def _numbers(self, name: str) -> Iterable[int]:
        topic = self._controller.topics.get(name)
        current = set(range(len(topic.partitions))) if topic else set()
        return current | self._before.get(name, {}).keys()
