"""Tracking of topics that were deleted and created again under their old name."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.partition import PartitionState, TopicPartition


class _Incarnation(msgspec.Struct, frozen=True):
    topic_id: str
    since_s: float
    """Monotonic second at which the topic was first seen with this id."""
    seen_s: float


class Incarnations:
    """Separates a topic's figures from those of a deleted namesake: brokers answer by name."""

    def __init__(self, clock: Clock, *, remember_s: float) -> None:
        self._clock = clock
        self._remember_s = remember_s
        self._topics: dict[str, _Incarnation] = {}

    def see(self, states: Iterable[PartitionState]) -> None:
        """Record the topic ids of a poll; forget topics not seen for `remember_s` seconds."""
        now = self._clock.monotonic()
        ids = {state.tp.topic: state.topic_id for state in states if state.topic_id is not None}
        for topic, topic_id in ids.items():
            before = self._topics.get(topic)
            known = before is not None and before.topic_id == topic_id
            since_s = before.since_s if before is not None and known else now
            self._topics[topic] = _Incarnation(topic_id, since_s, now)
        self._topics = {
            topic: seen
            for topic, seen in self._topics.items()
            if now - seen.seen_s < self._remember_s
        }

    def of_this(self, tp: TopicPartition, asked_s: float) -> bool:
        """Whether a figure requested at `asked_s` belongs to the topic's present incarnation."""
        seen = self._topics.get(tp.topic)
        return seen is None or asked_s >= seen.since_s
