"""Log ends, sizes and settings of what moves, gathered from many brokers poll by poll."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ktui.cluster.asking import Asking
from ktui.cluster.broker import BrokerConfig, LogDir, TopicConfig
from ktui.cluster.clock import Clock, first_of
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.incarnations import Incarnations
from ktui.cluster.observation import Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterReader,
    LogDirsAnswer,
    OffsetsAnswer,
)
from ktui.cluster.topic_settings import CONFIGS_EVERY_S, TopicSettings

SIZES_EVERY_S = 5.0
_PASSING = frozenset({"NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"})
"""What a broker says of a replica that it no longer has, or not yet, while metadata is late."""

STALE_S = 60.0
"""Figures older than this mean nothing any more."""


class ClusterFigures:
    """The figures of one cluster, each with the second at which it was read.

    Per broker one question of a kind is open at a time; sizes are asked every 5 s, settings every
    30 s. Whoever has not answered within `patience_s` keeps its last figures and is a failure.
    """

    def __init__(self, reader: ClusterReader, clock: Clock, patience_s: float) -> None:
        self._reader = reader
        self._clock = clock
        self._patience_s = patience_s
        self._offsets: Asking[int, OffsetsAnswer] = Asking(Operation.LOG_ENDS, clock)
        self._dirs: Asking[int, LogDirsAnswer] = Asking(
            Operation.LOG_DIRS, clock, every_s=SIZES_EVERY_S
        )
        self._brokers: Asking[int, BrokerConfig] = Asking(
            Operation.BROKER_CONFIGS, clock, every_s=CONFIGS_EVERY_S
        )
        self._topics = TopicSettings(reader, clock)
        self._per_broker: tuple[Asking[int, Any], ...] = (self._offsets, self._dirs, self._brokers)
        self._askings: tuple[Asking[Any, Any], ...] = (*self._per_broker, self._topics.asking)
        self._topics_seen = Incarnations(clock, remember_s=STALE_S)
        self._measured: Mapping[int, Collection[TopicPartition]] = {}
        """By broker, the partitions looked at in the last poll."""
        self._refusals: dict[int, _Refusals] = {}

    async def read(
        self,
        cluster: ClusterDescription,
        measured: Iterable[PartitionState],
        topics: frozenset[str],
        *,
        everyone: bool,
    ) -> None:
        """Ask what is due and wait, at most `patience_s`, for the answers.

        Args:
            cluster: who is there; brokers that are down are not asked.
            measured: the partitions whose leaders and lagging replicas are looked at.
            topics: whose settings are wanted.
            everyone: ask all brokers for their disks and settings, not only those concerned.
        """
        measured = tuple(measured)
        self._topics_seen.see(measured)
        ends, starts = _by_broker(measured)
        self._measured = ends
        alive = cluster.online
        concerned = alive & ends.keys()
        self._harvest()  # who answered since the last poll may be asked again in this one
        hidden = {state.tp for state in measured if not state.described}
        for broker in concerned:
            if readable := ends[broker] - hidden:  # brokers log each denial
                self._ask_offsets(broker, readable, starts[broker])
        for broker in alive if everyone else concerned:
            self._ask_broker(broker, ends[broker])
        self._topics.ask(topics)
        await self._wait()
        for asking in self._per_broker:
            asking.keep(alive, younger_than_s=STALE_S)
            asking.forgive(alive if everyone and asking is not self._offsets else concerned)

    def settings_changed(self, topics: Iterable[str], brokers: Iterable[int]) -> None:
        """Have settings read again in the next poll; until then those read last stand."""
        self._topics.changed(topics)
        for broker in brokers:
            self._brokers.expire(broker)

    def _ask_offsets(
        self, broker: int, ends: set[TopicPartition], starts: set[TopicPartition]
    ) -> None:
        if self._offsets.due(broker):
            self._offsets.ask(broker, self._reader.log_offsets(broker, ends=ends, starts=starts))

    def _ask_broker(self, broker: int, partitions: set[TopicPartition]) -> None:
        if self._dirs.due(broker):
            self._dirs.ask(broker, self._reader.log_dirs(broker, partitions))
        if self._brokers.due(broker):
            self._brokers.ask(broker, self._reader.broker_config(broker))

    async def _wait(self) -> None:
        # Who has not answered within its patience is not waited for again, poll by poll.
        patience_s = self._patience_s
        open_ = set().union(*(a.open(younger_than_s=patience_s) for a in self._askings))
        if open_:
            await first_of(asyncio.wait(open_), self._clock.sleep(patience_s))
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
        """Log end offsets by replica."""
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
        """Log dirs by broker."""
        return {broker: answer.value.log_dirs for broker, answer in self._dirs.answers.items()}

    @property
    def topic_configs(self) -> dict[str, TopicConfig]:
        """Settings by topic."""
        return self._topics.configs

    @property
    def broker_configs(self) -> dict[int, BrokerConfig]:
        """Settings by broker."""
        return {broker: answer.value for broker, answer in self._brokers.answers.items()}

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What is missing or late, by whom, and why."""
        return (
            *(failure for asking in self._per_broker for failure in asking.failures()),
            *self._offset_errors(),
            *self._topics.failures(),
        )

    def _offset_errors(self) -> Iterable[Failure]:
        # One line a broker and reason: 2,000 partitions may be refused for the same one.
        for broker, refusals in self._refusals.items():
            counted: defaultdict[str, list[TopicPartition]] = defaultdict(list)
            for tp, code in refusals.lasting():
                if tp in self._measured.get(broker, ()):
                    counted[code].append(tp)
            for code, tps in counted.items():
                more = f" and {len(tps) - 1} more" if len(tps) > 1 else ""
                yield Failure(Operation.LOG_ENDS, f"{code} for {min(tps)}{more}", broker)

    async def aclose(self) -> None:
        """Cancel what is open."""
        for asking in self._askings:
            await asking.aclose()


class _Refusals(NamedTuple):
    """The partitions that a broker would not answer for, by its answer before last and its last."""

    asked_s: float
    before: Mapping[TopicPartition, str]
    now: Mapping[TopicPartition, str]

    def lasting(self) -> Iterable[tuple[TopicPartition, str]]:
        """Give those that are more than metadata being a moment late."""
        for tp, code in self.now.items():
            if code not in _PASSING or self.before.get(tp) == code:
                yield tp, code


def _by_broker(
    measured: Iterable[PartitionState],
) -> tuple[defaultdict[int, set[TopicPartition]], defaultdict[int, set[TopicPartition]]]:
    """Which broker to ask for which log ends, and which leader for which log starts."""
    ends: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    starts: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    for state in measured:
        for broker in state.catching_up:
            ends[broker].add(state.tp)
        if state.leader is not None:
            ends[state.leader].add(state.tp)
            starts[state.leader].add(state.tp)
    return ends, starts
