"""Log ends, sizes and settings of moving partitions, gathered from many brokers at each poll."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ktui.cluster.asking import RequestsByKey
from ktui.cluster.broker import BrokerConfig, LogDir, TopicConfig
from ktui.cluster.clock import Clock, wait_for_first
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.kafka_error import Means, means
from ktui.cluster.observation import Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.polled import Incarnations
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterReader,
    LogDirsAnswer,
    OffsetsAnswer,
)
from ktui.cluster.settings import CONFIGS_EVERY_S, TopicSettings

SIZES_EVERY_S = 5.0
"""Errors for a replica that a broker no longer has, or not yet, while metadata lags."""

STALE_S = 60.0
"""Seconds after which figures no longer mean anything."""


class ClusterFigures:
    """The figures of one cluster, each with the second at which it was read.

    Each broker has at most one open request of each kind. Sizes are read every 5 s, settings every
    30 s. A broker that has not answered within `patience_s` seconds is reported as a failure, and
    its last figures are kept.
    """

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
        """By broker, the partitions read in the last poll."""
        self._without_sizes: set[int] = set()
        """Brokers whose log dirs alone were last asked for."""
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
        """Send the requests that are due, and wait at most `patience_s` for the answers.

        Args:
            cluster: the brokers; those that are down are not asked.
            measured: the partitions whose leaders and lagging replicas are measured.
            everyone: whether to read settings of all brokers, not only those concerned.
            all_log_dirs: whether to read the log dirs of all brokers.
        """
        measured = tuple(measured)
        self._topics_seen.see(measured)
        ends, starts = _by_broker(measured)
        self._measured = ends
        alive = cluster.online
        concerned = alive & ends.keys()
        self._harvest()  # brokers that answered since the last poll may be asked again
        hidden = {state.tp for state in measured if not state.described}
        for broker in concerned:
            if readable := ends[broker] - hidden:  # brokers log each denial
                self._ask_offsets(broker, readable, starts[broker])
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
        """Read settings again in the next poll; the last ones stay until then."""
        self._topics.changed(topics)
        for broker in brokers:
            self._brokers.expire(broker)

    def _ask_offsets(
        self, broker: int, ends: set[TopicPartition], starts: set[TopicPartition]
    ) -> None:
        if self._offsets.due(broker):
            self._offsets.ask(broker, self._reader.log_offsets(broker, ends=ends, starts=starts))

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
        self._topics.take()

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
        """Log start offsets, each at the partition's leader."""
        return {
            tp: Reading(start, answer.at_s)
            for answer in self._offsets.answers.values()
            for tp, start in answer.value.starts.items()
            if self._topics_seen.of_this(tp, answer.asked_s)
        }

    @property
    def sizes(self) -> dict[Replica, Reading]:
        """Bytes on disk by replica."""
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
        """Missing and late answers, with their brokers and reasons."""
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
    """The partitions that a broker refused in its last two answers, with error codes."""

    asked_s: float
    before: Mapping[TopicPartition, str]
    now: Mapping[TopicPartition, str]

    def lasting(self) -> Iterable[tuple[TopicPartition, str]]:
        """Yield the refusals that lagging metadata does not explain."""
        for tp, code in self.now.items():
            if not means(code, Means.NOT_YET) or self.before.get(tp) == code:
                yield tp, code


def _by_broker(
    measured: Iterable[PartitionState],
) -> tuple[defaultdict[int, set[TopicPartition]], defaultdict[int, set[TopicPartition]]]:
    """Return the log ends to request from each broker, and the log starts from each leader."""
    ends: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    starts: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    for state in measured:
        for broker in state.catching_up:
            ends[broker].add(state.tp)
        if state.leader is not None:
            ends[state.leader].add(state.tp)
            starts[state.leader].add(state.tp)
    return ends, starts
