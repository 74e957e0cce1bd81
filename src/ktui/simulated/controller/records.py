"""The controller's records: of every partition, and of the brokers that are registered."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from ktui.cluster.partition import TopicPartition


class Registration(msgspec.Struct, frozen=True, gc=False):
    """One partition's record (PartitionRegistration): `replicas` is the target, then the removed.

    A new leader epoch begins with each new leader and each removal of a replica.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()  # eligible leader replicas (KIP-966)
    last_known_leader: int | None = None  # of a partition without ISR and ELR (KIP-966)
    offline: tuple[int, ...] = ()  # the replicas whose log dir has failed (KIP-858)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)


class RecordChange(msgspec.Struct, frozen=True):
    """A partition's record before and after one decision; None if there is no partition."""

    tp: TopicPartition
    topic_id: str
    before: Registration | None
    after: Registration | None


class Membership:
    """The registered brokers. Only active ones may lead: neither fenced nor shutting down."""

    def __init__(self, brokers: Iterable[int], down: Collection[int] = ()) -> None:
        self.registered = set(brokers)
        self.active = self.registered - set(down)
        self.fenced = set(down)  # down, not yet up, or unregistered
        self._stopping: set[int] = set()

    def may_lead(self, broker: int) -> bool:
        return broker in self.active

    def stopping(self, broker: int) -> bool:
        return broker in self._stopping

    def fence(self, broker: int) -> None:
        self.fenced.add(broker)
        self.active.discard(broker)

    def unfence(self, broker: int) -> None:
        """Mark a registered broker as up; one shutting down stays inactive until it registers."""
        if broker not in self.registered:
            return
        self.fenced.discard(broker)
        if broker not in self._stopping:
            self.active.add(broker)

    def stop(self, broker: int) -> None:
        self._stopping.add(broker)
        self.active.discard(broker)

    def register(self, broker: int) -> None:
        self._stopping.discard(broker)
        self.registered.add(broker)
        self.fence(broker)

    def unregister(self, broker: int) -> None:
        self.registered.discard(broker)
        self.fence(broker)


class TopicRecords(msgspec.Struct):
    """A topic and the records of its partitions, by number."""

    name: str
    id: str  # URL-safe base64 of 16 bytes, unique to each topic ever created
    partitions: list[Registration]
    slots: int = 2  # the size of the hash table in which Kafka keeps them (TimelineHashMap)

    @property
    def first_found(self) -> Registration:
        """The record that Kafka finds first: of those in the first slot, the newest partition's."""
        count = len(self.partitions)
        return self.partitions[
            max(number for number in range(count) if number * _KNUTH % 2**64 * self.slots < 2**64)
        ]

    def make_room(self, count: int) -> None:
        """Double the slots as Kafka does before it puts an entry to `count - 1` that are there."""
        while count * 3 > self.slots * 4:
            self.slots *= 2


_KNUTH = 2**64 - 7_046_029_254_386_353_131  # multiplies hash codes; the highest bits are the slot

NextRecord = tuple[TopicPartition, Registration]


class Records:
    """The controller's records. Each change to them is reported once, in order."""

    def __init__(self, notify: Callable[[RecordChange], None], *, seed: int) -> None:
        self._notify = notify
        self._random = random.Random(seed)  # noqa: S311 - ids, not secrets
        self._topics_on: dict[int, dict[str, None]] = {}
        self.topics: dict[str, TopicRecords] = {}
        self.reassigning: dict[TopicPartition, Registration] = {}
        self.leaderless: dict[TopicPartition, None] = {}
        self.imbalanced: dict[TopicPartition, None] = {}

    def get(self, tp: TopicPartition) -> Registration | None:
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    def on(self, broker: int) -> Iterator[tuple[TopicPartition, Registration]]:
        """Yield the partitions whose ISR or ELR (KIP-966) contains a broker, in order."""
        for name in self._topics_on.get(broker, ()):
            for number, known in enumerate(self.topics[name].partitions):
                if broker in known.isr or broker in known.elr:
                    yield TopicPartition(name, number), known

    def create(
        self, name: str, partitions: Iterable[Registration], topic_id: str | None = None
    ) -> None:
        drawn = base64.urlsafe_b64encode(self._random.randbytes(16)).decode().rstrip("=")
        self.topics[name] = TopicRecords(name, topic_id or drawn, [])
        self.extend(name, partitions)

    def extend(self, name: str, partitions: Iterable[Registration]) -> None:
        topic = self.topics[name]
        begin = len(topic.partitions)
        topic.partitions += partitions
        topic.make_room(len(topic.partitions))
        made = topic.partitions[begin:]
        for broker in {b for known in made for b in known.replicas}:
            self._topics_on.setdefault(broker, {})[name] = None
        for number, known in enumerate(made, begin):
            tp = TopicPartition(name, number)
            self._note(tp, known)
            self._notify(RecordChange(tp, topic.id, None, known))

    def delete(self, name: str) -> None:
        topic = self.topics.pop(name)
        for topics in self._topics_on.values():
            topics.pop(name, None)
        for number, known in enumerate(topic.partitions):
            tp = TopicPartition(name, number)
            self.reassigning.pop(tp, None)
            self.leaderless.pop(tp, None)
            self.imbalanced.pop(tp, None)
            self._notify(RecordChange(tp, topic.id, known, None))

    def commit(self, decisions: Iterable[NextRecord]) -> None:
        for tp, after in decisions:
            topic = self.topics[tp.topic]
            before = topic.partitions[tp.partition]
            topic.partitions[tp.partition] = after
            topic.make_room(len(topic.partitions) + 1)  # Kafka counts a replaced entry as one more
            self._index(tp, before, after)
            self._notify(RecordChange(tp, topic.id, before, after))

    def _index(self, tp: TopicPartition, before: Registration, after: Registration) -> None:
        for broker in after.replicas:
            if broker not in before.replicas:
                self._topics_on.setdefault(broker, {})[tp.topic] = None
        self._note(tp, after)

    def _note(self, tp: TopicPartition, after: Registration) -> None:
        if after.reassigning:
            self.reassigning[tp] = after
        else:
            self.reassigning.pop(tp, None)
        _update(self.leaderless, tp, member=after.leader is None)
        _update(self.imbalanced, tp, member=after.leader != after.replicas[0])


def _update(index: dict[TopicPartition, None], tp: TopicPartition, *, member: bool) -> None:
    if member:
        index[tp] = None
    else:
        index.pop(tp, None)
