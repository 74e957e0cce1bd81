"""Drive the data of a simulated cluster without a controller; the test decides instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.data.replication import CaughtUp, FlowEvent, Replication
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec

MB = 1_000_000

Happening = tuple[Any, FlowEvent]
"""A time in seconds, which a test compares approximately, and the event at that time."""


def broker(number: int, **can: Any) -> BrokerSpec:
    """Return a broker, of 100 MB/s by default."""
    return BrokerSpec(id=number, **{"net_in": 100.0 * MB, "net_out": 100.0 * MB, **can})


def topic(name: str, *replicas: tuple[int, ...], **has: Any) -> TopicSpec:
    """Return a topic with these replicas of each partition."""
    return TopicSpec(name=name, replicas=replicas, **has)


@dataclass
class DataPlane:
    """Replication, and the records that a test sets for it."""

    replication: Replication
    records: dict[TopicPartition, Registration] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    events: list[Happening] = field(default_factory=list)

    def create(self, spec: TopicSpec, topic_id: str = "first") -> None:
        """Create a topic, every replica of it in sync."""
        self.replication.prepare(spec)
        self.ids[spec.name] = topic_id
        for number, replicas in enumerate(spec.replicas):
            tp = TopicPartition(spec.name, number)
            self._tell(tp, None, Registration(replicas, replicas, replicas[0]))

    def delete(self, name: str) -> None:
        """Delete a topic."""
        for tp in [tp for tp in self.records if tp.topic == name]:
            self._tell(tp, self.records[tp], None)

    def decide(self, tp: TopicPartition, **fields: Any) -> None:
        """Change a partition's record."""
        before = self.records[tp]
        self._tell(tp, before, msgspec.structs.replace(before, **fields))

    def add(self, tp: TopicPartition, *brokers: int) -> None:
        """Start to add replicas."""
        known = self.records[tp]
        self.decide(tp, replicas=(*known.replicas, *brokers), adding=(*known.adding, *brokers))

    def drop(self, tp: TopicPartition, *brokers: int) -> None:
        """Remove replicas."""
        known = self.records[tp]
        self.decide(
            tp,
            replicas=tuple(b for b in known.replicas if b not in brokers),
            isr=tuple(b for b in known.isr if b not in brokers),
            adding=tuple(b for b in known.adding if b not in brokers),
        )

    def accept(self, tp: TopicPartition, follower: int) -> None:
        """Add a follower to the ISR."""
        known = self.records[tp]
        adding = tuple(b for b in known.adding if b != follower)
        self.decide(tp, isr=(*known.isr, follower), adding=adding)

    def run(self, to_s: float, *, accepting: bool = True) -> list[Happening]:
        """Let time pass, and return the events; followers that caught up are added to the ISR."""
        happened: list[Happening] = []
        while (next_s := self.replication.next_event_s()) <= to_s:
            for event in self.replication.advance(next_s):
                happened.append((next_s, event))
                if accepting and isinstance(event, CaughtUp) and self._wanted(event):
                    self.accept(event.tp, event.broker)
        self.replication.advance(to_s)
        self.events += happened
        return happened

    def end(self, tp: TopicPartition, number: int) -> int:
        """Return the log end of an existing replica."""
        end = self.replication.end(tp, number)
        assert end is not None
        return end

    def lag(self, tp: TopicPartition, number: int) -> int:
        """Return how many messages a replica is behind its leader."""
        leader = self.records[tp].leader
        assert leader is not None
        return self.end(tp, leader) - self.end(tp, number)

    def _wanted(self, event: CaughtUp) -> bool:
        return event.broker not in self.records[event.tp].isr

    def _tell(
        self, tp: TopicPartition, before: Registration | None, after: Registration | None
    ) -> None:
        if after is None:
            del self.records[tp]
        else:
            self.records[tp] = after
        self.replication.changed(RecordChange(tp, self.ids[tp.topic], before, after))


def data_plane(
    *topics: TopicSpec, brokers: Iterable[BrokerSpec] | int = 4, seed: int = 0, **cluster: Any
) -> DataPlane:
    """Set up a cluster of brokers 0, 1, 2, ... with these topics."""
    if isinstance(brokers, int):
        brokers = [broker(number) for number in range(brokers)]
    spec = ClusterSpec(brokers=tuple(brokers), topics=topics, **cluster)
    plane = DataPlane(Replication(spec, seed=seed))
    for each in topics:
        plane.create(each)
    return plane


__all__ = ["MB", "MIB", "DataPlane", "broker", "data_plane", "topic"]
