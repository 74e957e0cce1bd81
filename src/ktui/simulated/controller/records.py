"""Every partition's record, and what makes questions about them cheap."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.registration import RecordChange, Registration


class TopicRecords(msgspec.Struct):
    """A topic and the records of its partitions, by number."""

    name: str
    id: str
    """URL-safe base64 of 16 bytes, another one for each topic ever made."""
    partitions: list[Registration]


NextRecord = tuple[TopicPartition, Registration]
"""A partition and its next record."""


class Records:
    """What the controller has on record, and each change to it told once, in order.

    Args:
        tell: who hears of each change.
        seed: of the topic ids, so that histories repeat.
    """

    def __init__(self, tell: Callable[[RecordChange], None], *, seed: int) -> None:
        self._tell = tell
        self._chance = random.Random(seed)  # noqa: S311 - ids, not secrets
        self._topics_on: dict[int, dict[str, None]] = {}
        self.topics: dict[str, TopicRecords] = {}
        self.reassigning: dict[TopicPartition, Registration] = {}
        self.leaderless: dict[TopicPartition, None] = {}
        self.imbalanced: dict[TopicPartition, None] = {}
        """Those that their preferred leader does not lead, in the order in which it came so."""

    def get(self, tp: TopicPartition) -> Registration | None:
        """Give one partition's record, if there is such a partition."""
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    def on(self, broker: int) -> Iterator[tuple[TopicPartition, Registration]]:
        """Give the partitions that a broker is in sync with or was lately (KIP-966), in order."""
        for name in self._topics_on.get(broker, ()):
            for number, known in enumerate(self.topics[name].partitions):
                if broker in known.isr or broker in known.elr:
                    yield TopicPartition(name, number), known

    def create(self, name: str, partitions: Iterable[Registration]) -> None:
        """Put a new topic on record."""
        topic_id = base64.urlsafe_b64encode(self._chance.randbytes(16)).decode().rstrip("=")
        topic = self.topics[name] = TopicRecords(name, topic_id, list(partitions))
        for broker in {b for known in topic.partitions for b in known.replicas}:
            self._topics_on.setdefault(broker, {})[name] = None
        for number, known in enumerate(topic.partitions):
            tp = TopicPartition(name, number)
            if known.leader != known.replicas[0]:
                self.imbalanced[tp] = None
            self._tell(RecordChange(tp, topic_id, None, known))

    def delete(self, name: str) -> None:
        """Take a topic off the records."""
        topic = self.topics.pop(name)
        for topics in self._topics_on.values():
            topics.pop(name, None)
        for number, known in enumerate(topic.partitions):
            tp = TopicPartition(name, number)
            self.reassigning.pop(tp, None)
            self.leaderless.pop(tp, None)
            self.imbalanced.pop(tp, None)
            self._tell(RecordChange(tp, topic.id, known, None))

    def commit(self, decisions: Iterable[NextRecord]) -> None:
        """Put decisions on record. They were all taken on the records as they were before."""
        for tp, after in decisions:
            topic = self.topics[tp.topic]
            before = topic.partitions[tp.partition]
            topic.partitions[tp.partition] = after
            self._index(tp, before, after)
            self._tell(RecordChange(tp, topic.id, before, after))

    def _index(self, tp: TopicPartition, before: Registration, after: Registration) -> None:
        for broker in after.replicas:
            if broker not in before.replicas:
                self._topics_on.setdefault(broker, {})[tp.topic] = None
        if after.reassigning:
            self.reassigning[tp] = after
        else:
            self.reassigning.pop(tp, None)
        _keep(self.leaderless, tp, among=after.leader is None)
        _keep(self.imbalanced, tp, among=after.leader != after.replicas[0])


def _keep(index: dict[TopicPartition, None], tp: TopicPartition, *, among: bool) -> None:
    if among:
        index[tp] = None
    else:
        index.pop(tp, None)
