"""Encode observations as polls; each holds only the differences from the previous one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ktui.cluster.errors import Failure
from ktui.cluster.observation import Census, Observation, Reading
from ktui.cluster.partition import Replica, TopicPartition
from ktui.recording.lines import (
    CensusLine,
    LeaderFigures,
    Name,
    PollLine,
    ReplicaFiguresLine,
    ReplicaGone,
    StateRow,
    to_ms,
    wall_ms,
)

K = TypeVar("K")
V = TypeVar("V")


class Encoder:
    """Encodes the observations of one segment as its polls, in their order."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._numbers: dict[tuple[TopicPartition, str | None], int] = {}
        self._new: list[Name] = []
        self._of: dict[TopicPartition, int] = {}
        self._before: Observation | None = None
        self._seq: int | None = None
        self._ends: dict[Replica, Reading] = {}
        self._starts: dict[TopicPartition, Reading] = {}
        self._sizes: dict[Replica, Reading] = {}

    def poll(self, observation: Observation, *, seq: int, whole: bool = False) -> PollLine:
        """Encode an observation; a `whole` poll does not build on an earlier one."""
        if whole or self._before is None:
            self._begin()
        before, ms = self._before, to_ms(observation.monotonic_s)
        self._new = []
        states = tuple(self._states(observation, before))
        absent = tuple(self._number(tp, None) for tp in sorted(observation.absent))
        ends, ends_gone = self._replicas(self._ends, observation.ends, ms)
        sizes, sizes_gone = self._replicas(self._sizes, observation.sizes, ms)
        starts, starts_gone = self._leaders(observation.starts, ms)
        poll = PollLine(
            seq=seq,
            at=wall_ms(observation.at),
            ms=ms,
            took_ms=to_ms(observation.took_s),
            whole=before is None,
            follows=self._seq,
            controller=observation.controller,
            fresh=observation.fresh,
            waits_for_kept=observation.waits_for_kept,
            refuses_cordoned=observation.refuses_cordoned,
            names=tuple(self._new),
            states=states,
            unseen=tuple(self._unseen(observation)),
            absent=None if observation.absent == _absent(before) else absent,
            ends=ends,
            ends_gone=ends_gone,
            starts=starts,
            starts_gone=starts_gone,
            sizes=sizes,
            sizes_gone=sizes_gone,
            brokers=_changed(before.brokers if before else {}, observation.brokers),
            log_dirs=_changed(before.log_dirs if before else {}, observation.log_dirs),
            topic_configs=_changed(
                before.topic_configs if before else {}, observation.topic_configs
            ),
            broker_configs=_changed(
                before.broker_configs if before else {}, observation.broker_configs
            ),
            census=_census(before.census if before else None, observation.census),
            census_gone=observation.census is None
            and before is not None
            and before.census is not None,
            failures=_failures(before, observation),
        )
        self._before, self._seq = observation, seq
        return poll

    def _states(self, observation: Observation, before: Observation | None) -> Iterable[StateRow]:
        known = before.partitions if before else {}
        for tp, state in observation.partitions.items():
            if known.get(tp) != state:
                self._of[tp] = number = self._number(tp, state.topic_id)
                yield (
                    number,
                    state.replicas,
                    state.isr,
                    state.leader,
                    state.leader_epoch,
                    state.adding,
                    state.removing,
                    state.offline,
                    state.elr,
                    state.described,
                )

    def _unseen(self, observation: Observation) -> Iterable[int]:
        known = self._before.partitions if self._before else {}
        return (self._of[tp] for tp in known if tp not in observation.partitions)

    def _number(self, tp: TopicPartition, topic_id: str | None) -> int:
        key = (tp, topic_id)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._new.append((number, tp.topic, tp.partition, topic_id))
        return number

    def _any_number(self, tp: TopicPartition) -> int:
        number = self._of.get(tp)
        if number is None:
            number = self._of[tp] = self._number(tp, None)
        return number

    def _replicas(
        self, before: dict[Replica, Reading], now: Mapping[Replica, Reading], ms: int
    ) -> tuple[tuple[ReplicaFiguresLine, ...], tuple[ReplicaGone, ...]]:
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for replica, read_ms, grown in _stored(before, now):
            row = groups[replica.broker, ms - read_ms]
            row += (self._any_number(replica.tp), grown)
        return (
            tuple((broker, age, tuple(row)) for (broker, age), row in groups.items()),
            tuple((self._any_number(gone.tp), gone.broker) for gone in _forget(before, now)),
        )

    def _leaders(
        self, now: Mapping[TopicPartition, Reading], ms: int
    ) -> tuple[tuple[LeaderFigures, ...], tuple[int, ...]]:
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for tp, read_ms, grown in _stored(self._starts, now):
            groups[ms - read_ms] += (self._any_number(tp), grown)
        return (
            tuple((age, tuple(row)) for age, row in groups.items()),
            tuple(self._any_number(gone) for gone in _forget(self._starts, now)),
        )


def _stored(before: dict[K, Reading], now: Mapping[K, Reading]) -> Iterable[tuple[K, int, int]]:
    for key, reading in now.items():
        last = before.get(key)
        if last is reading:
            continue
        before[key] = reading
        read_ms = to_ms(reading.at_s)
        if last is None:
            yield key, read_ms, reading.value
        elif reading.value != last.value or read_ms != to_ms(last.at_s):
            yield key, read_ms, reading.value - last.value


def _forget(before: dict[K, Reading], now: Mapping[K, Reading]) -> list[K]:
    if len(before) == len(now):
        return []
    gone = [key for key in before if key not in now]
    for key in gone:
        del before[key]
    return gone


def _absent(before: Observation | None) -> frozenset[TopicPartition]:
    return before.absent if before else frozenset()


def _failures(before: Observation | None, now: Observation) -> tuple[Failure, ...] | None:
    known = before.failures if before else ()
    return None if now.failures == known else now.failures


def _changed(before: Mapping[K, V], now: Mapping[K, V]) -> dict[K, V | None]:
    if before is now:
        return {}
    gone: dict[K, V | None] = {key: None for key in before if key not in now}
    return gone | {key: value for key, value in now.items() if before.get(key) != value}


def _census(before: Census | None, now: Census | None) -> CensusLine | None:
    if now is None or now == before:
        return None
    return CensusLine(
        at=wall_ms(now.at),
        ms=to_ms(now.monotonic_s),
        took_ms=to_ms(now.took_s),
        topics=now.topics,
        partitions=now.partitions,
        leaders=dict(now.leaders),
        replicas=dict(now.replicas),
        unhealthy=tuple((tp.topic, tp.partition) for tp in now.unhealthy),
        in_sync=now.in_sync,
    )
