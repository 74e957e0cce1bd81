"""What an observer remembers from poll to poll: the census, new incarnations, what just ended."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from itertools import islice, takewhile

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Census
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, TopicsAnswer


async def take_census(pages: AsyncIterator[TopicsAnswer], clock: Clock) -> Census:
    """Count leaders and replicas per broker, and find unhealthy partitions."""
    started = clock.monotonic()
    topics: set[str] = set()
    partitions = 0
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    unhealthy: list[tuple[int, TopicPartition]] = []
    async for page in pages:
        partitions += len(page.partitions)
        topics.update(tp.topic for tp in page.partitions)
        for state in page.partitions.values():
            replicas.update(state.replicas)
            if state.leader is not None:
                leaders[state.leader] += 1
            if _looks_unhealthy(state):
                unhealthy.append((0 if state.leader is None else len(state.isr), state.tp))
    unhealthy.sort()
    return Census(
        at=clock.now(),
        monotonic_s=clock.monotonic(),
        took_s=clock.monotonic() - started,
        topics=len(topics),
        partitions=partitions,
        leaders=dict(leaders),
        replicas=dict(replicas),
        unhealthy=tuple(tp for _, tp in unhealthy),
        in_sync=tuple(size for size, _ in unhealthy),
    )


def _looks_unhealthy(state: PartitionState) -> bool:
    # Metadata does not mark adding replicas: a moving partition is judged once it is listed.
    return state.leader is None or len(state.isr) < len(state.replicas)


CLOSELY_S = 30.0
"""Seconds for which a partition that left is read in every poll, to learn its outcome."""
FOLLOW_S = 600.0
"""Seconds for which such a partition is read occasionally: as long as its row is shown."""
SELDOM_S = 4.0
"""The interval of those occasional reads: at least once in each 5 s slot of a timeline."""
MOST = 2_000
"""The most partitions followed, latest first: thousands of ended rows are not worth polling."""


class RecentlyReassigned:
    """Remembers when each partition left the list: at the first poll without that partition."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listed: frozenset[TopicPartition] = frozenset()
        self._left_s: dict[TopicPartition, float] = {}
        """The second at which each partition left, in the order of leaving."""
        self._all_s = -math.inf

    def due(self, listed: Collection[TopicPartition]) -> set[TopicPartition]:
        """Record a list, and return the other partitions that this poll must read."""
        now, before, left = self._clock.monotonic(), self._listed, self._left_s
        self._listed = frozenset(listed)
        for tp in self._listed:
            left.pop(tp, None)
        left |= dict.fromkeys(before - self._listed, now)
        self._forget(now)
        if now - self._all_s >= SELDOM_S:
            self._all_s = now
            return set(left)
        return set(takewhile(lambda tp: now - left[tp] < CLOSELY_S, reversed(left)))

    def _forget(self, now: float) -> None:
        """Forget those that left long ago, and those that left first where there are too many."""
        left = self._left_s
        old = takewhile(lambda tp: now - left[tp] >= FOLLOW_S, left)
        for tp in [*old, *islice(left, max(0, len(left) - MOST))]:
            left.pop(tp, None)


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


async def topic_names(reader: ClusterReader) -> Collection[str]:
    """Read all topic names for suggestions; none if they cannot be read."""
    names: set[str] = set()
    try:
        async for page in reader.scan_topics():
            names.update(tp.topic for tp in page.partitions)
    except ClusterError:
        return ()  # only suggestions are lost: the check does not need the names
    return names
