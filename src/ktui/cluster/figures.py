"""Log ends, sizes and settings of moving partitions, gathered from many brokers at each poll."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from itertools import islice, takewhile
from typing import Any, NamedTuple

import msgspec

from ktui.cluster.asking import RequestsByKey
from ktui.cluster.broker import BrokerConfig, LogDir, TopicConfig
from ktui.cluster.clock import Clock, wait_for_first
from ktui.cluster.errors import ClusterError, Failure, Means, Operation, means
from ktui.cluster.observation import Census, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterReader,
    LogDirsAnswer,
    OffsetsAnswer,
    TopicsAnswer,
)
from ktui.cluster.settings import CONFIGS_EVERY_S, TopicSettings


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
            # Metadata does not mark adding replicas: a moving one is judged once it is listed.
            if state.leader is None or len(state.isr) < len(state.replicas):
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


CLOSELY_S = 30.0  # for which a partition that left is read in every poll: its outcome
FOLLOW_S = 600.0  # for which such a partition is read now and then: its row is shown
SELDOM_S = 4.0  # between those reads: at least once in each 5 s slot of a timeline
MOST = 2_000  # partitions followed, latest first: thousands of ended rows tell nothing


class RecentlyReassigned:
    """Remembers when each partition left the list: at the first poll without that partition."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listed: frozenset[TopicPartition] = frozenset()
        self._left_s: dict[TopicPartition, float] = {}
        self._all_s = -math.inf

    def due(self, listed: Collection[TopicPartition]) -> set[TopicPartition]:
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
        left = self._left_s
        old = takewhile(lambda tp: now - left[tp] >= FOLLOW_S, left)
        for tp in [*old, *islice(left, max(0, len(left) - MOST))]:
            left.pop(tp, None)


class _Incarnation(msgspec.Struct, frozen=True):
    topic_id: str
    since_s: float
    seen_s: float


class Incarnations:
    """Separates a topic's figures from those of a deleted namesake: brokers answer by name."""

    def __init__(self, clock: Clock, *, remember_s: float) -> None:
        self._clock = clock
        self._remember_s = remember_s
        self._topics: dict[str, _Incarnation] = {}

    def see(self, states: Iterable[PartitionState]) -> None:
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


SIZES_EVERY_S = 5.0

STALE_S = 60.0  # seconds after which figures no longer mean anything


class ClusterFigures:
    """The figures of one cluster, each with its second: sizes every 5 s, settings every 30 s."""

    def __init__(self, reader: ClusterReader, clock: Clock, patience_s: float) -> None:
        self._reader = reader
        self._clock = clock
        self.patience_s = patience_s
        self._offsets: RequestsByKey[int, OffsetsAnswer] = RequestsByKey(Operation.LOG_ENDS, clock)
        self._dirs: RequestsByKey[int, LogDirsAnswer] = RequestsByKey(
            Operation.LOG_DIRS, clock, every_s=SIZES_EVERY_S
        )
        self._brokers: RequestsByKey[int, BrokerConfig] = RequestsByKey(
            Operation.BROKER_CONFIGS, clock, every_s=CONFIGS_EVERY_S
        )
        self._topics = TopicSettings(reader, clock)
        self._per_broker: tuple[RequestsByKey[int, Any], ...] = (
            self._offsets,
            self._dirs,
            self._brokers,
        )
        self._askings: tuple[RequestsByKey[Any, Any], ...] = (
            *self._per_broker,
            self._topics.asking,
        )
        self._topics_seen = Incarnations(clock, remember_s=STALE_S)
        self._measured: Mapping[int, Collection[TopicPartition]] = {}
        self._without_sizes: set[int] = set()
        self._refusals: dict[int, _Refusals] = {}

    async def read(
        self,
        cluster: ClusterDescription,
        measured: Iterable[PartitionState],
        topics: frozenset[str],
        *,
        everyone: bool,
        all_log_dirs: bool,
    ) -> None:
        measured = tuple(measured)
        self._topics_seen.see(measured)
        ends, starts = _by_broker(measured)
        self._measured = ends
        alive = cluster.online
        concerned = alive & ends.keys()
        self._harvest()  # brokers that answered since the last poll may be asked again
        hidden = {state.tp for state in measured if not state.described}
        for broker in concerned:
            readable = ends[broker] - hidden  # brokers log each denial
            if readable and self._offsets.due(broker):
                call = self._reader.log_offsets(broker, ends=readable, starts=starts[broker])
                self._offsets.ask(broker, call)
        with_dirs = alive if all_log_dirs else concerned
        with_settings = alive if everyone else concerned
        for broker in with_dirs:
            self._ask_log_dirs(broker, ends.get(broker, frozenset()))
        for broker in with_settings:
            if self._brokers.due(broker):
                self._brokers.ask(broker, self._reader.broker_config(broker))
        self._topics.ask(topics)
        await self._wait()
        for asking in self._per_broker:
            asking.keep(alive, younger_than_s=STALE_S)
        self._offsets.forgive(concerned)
        self._dirs.forgive(with_dirs)
        self._brokers.forgive(with_settings)

    def settings_changed(self, topics: Iterable[str], brokers: Iterable[int]) -> None:
        self._topics.changed(topics)
        for broker in brokers:
            self._brokers.expire(broker)

    def _ask_log_dirs(self, broker: int, partitions: Collection[TopicPartition]) -> None:
        if partitions and broker in self._without_sizes:
            self._dirs.expire(broker)  # its replicas are wanted from now on
        if self._dirs.due(broker):
            self._dirs.ask(broker, self._reader.log_dirs(broker, partitions))
            (self._without_sizes.discard if partitions else self._without_sizes.add)(broker)

    async def _wait(self) -> None:
        # A request that has outlasted the patience once is not waited for in later polls.
        patience_s = self.patience_s
        open_ = set().union(*(a.open(younger_than_s=patience_s) for a in self._askings))
        if open_:
            await wait_for_first(asyncio.wait(open_), self._clock.sleep(patience_s))
        self._harvest()

    def _harvest(self) -> None:
        for asking in self._askings:
            asking.harvest()
        for broker, answer in self._offsets.answers.items():
            known = self._refusals.get(broker)
            if known is None or known.asked_s != answer.asked_s:
                before = {} if known is None else known.now
                self._refusals[broker] = _Refusals(answer.asked_s, before, answer.value.errors)
        self._topics.collect()

    @property
    def ends(self) -> dict[Replica, Reading]:
        return {
            Replica(tp, broker): Reading(end, answer.at_s)
            for broker, answer in self._offsets.answers.items()
            for tp, end in answer.value.ends.items()
            if self._topics_seen.of_this(tp, answer.asked_s)
        }

    @property
    def starts(self) -> dict[TopicPartition, Reading]:
        return {
            tp: Reading(start, answer.at_s)
            for answer in self._offsets.answers.values()
            for tp, start in answer.value.starts.items()
            if self._topics_seen.of_this(tp, answer.asked_s)
        }

    @property
    def sizes(self) -> dict[Replica, Reading]:
        return {
            Replica(tp, broker): Reading(size, answer.at_s)
            for broker, answer in self._dirs.answers.items()
            for tp, size in answer.value.sizes.items()
            if self._topics_seen.of_this(tp, answer.asked_s)
        }

    @property
    def log_dirs(self) -> dict[int, tuple[LogDir, ...]]:
        return {broker: answer.value.log_dirs for broker, answer in self._dirs.answers.items()}

    @property
    def topic_configs(self) -> dict[str, TopicConfig]:
        return self._topics.configs

    @property
    def broker_configs(self) -> dict[int, BrokerConfig]:
        return {broker: answer.value for broker, answer in self._brokers.answers.items()}

    @property
    def failures(self) -> tuple[Failure, ...]:
        return (
            *(failure for asking in self._per_broker for failure in asking.failures()),
            *self._offset_errors(),
            *self._topics.failures(),
        )

    def _offset_errors(self) -> Iterable[Failure]:
        # One line per broker and reason: 2,000 partitions may be refused for the same reason.
        for broker, refusals in self._refusals.items():
            counted: defaultdict[str, list[TopicPartition]] = defaultdict(list)
            for tp, code in refusals.lasting():
                if tp in self._measured.get(broker, ()):
                    counted[code].append(tp)
            for code, tps in counted.items():
                more = f" and {len(tps) - 1} more" if len(tps) > 1 else ""
                yield Failure(Operation.LOG_ENDS, f"{code} for {min(tps)}{more}", broker)

    async def aclose(self) -> None:
        for asking in self._askings:
            await asking.aclose()


class _Refusals(NamedTuple):
    asked_s: float
    before: Mapping[TopicPartition, str]
    now: Mapping[TopicPartition, str]

    def lasting(self) -> Iterable[tuple[TopicPartition, str]]:
        for tp, code in self.now.items():
            if not means(code, Means.NOT_YET) or self.before.get(tp) == code:
                yield tp, code


def _by_broker(
    measured: Iterable[PartitionState],
) -> tuple[defaultdict[int, set[TopicPartition]], defaultdict[int, set[TopicPartition]]]:
    ends: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    starts: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    for state in measured:
        for broker in state.catching_up:
            ends[broker].add(state.tp)
        if state.leader is not None:
            ends[state.leader].add(state.tp)
            starts[state.leader].add(state.tp)
    return ends, starts
