"""Encode observations as polls, each the differences from the previous one, and decode them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sized
from typing import Any, TypeVar

from ktui.cluster.observation import Census, Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.recording.segments import (
    CensusLine,
    LeaderFigures,
    Name,
    PollLine,
    ReplicaFiguresLine,
    ReplicaGone,
    StateRow,
    from_wall_ms,
    to_ms,
    to_s,
    wall_ms,
)

K = TypeVar("K")
V = TypeVar("V")
_NOTHING = Observation(
    cluster_id="",
    controller=None,
    brokers={},
    partitions={},
    at=from_wall_ms(0),
    monotonic_s=0.0,
    took_s=0.0,
)  # what a whole poll builds on


class Encoder:
    """Encodes the observations of one segment as its polls, in their order."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._numbers: dict[tuple[TopicPartition, str | None], int] = {}
        self._new: list[Name] = []
        self._of: dict[TopicPartition, int] = {}
        self._before = _NOTHING
        self._seq: int | None = None
        self._ends: dict[Replica, Reading] = {}
        self._starts: dict[TopicPartition, Reading] = {}
        self._sizes: dict[Replica, Reading] = {}

    def poll(self, observation: Observation, *, seq: int, whole: bool = False) -> PollLine:
        """Encode an observation; a `whole` poll does not build on an earlier one."""
        if whole:
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
            whole=before is _NOTHING,
            follows=self._seq,
            controller=observation.controller,
            fresh=observation.fresh,
            waits_for_kept=observation.waits_for_kept,
            refuses_cordoned=observation.refuses_cordoned,
            names=tuple(self._new),
            states=states,
            unseen=tuple(self._unseen(observation)),
            absent=None if observation.absent == before.absent else absent,
            ends=ends,
            ends_gone=ends_gone,
            starts=starts,
            starts_gone=starts_gone,
            sizes=sizes,
            sizes_gone=sizes_gone,
            brokers=_changed(before.brokers, observation.brokers),
            log_dirs=_changed(before.log_dirs, observation.log_dirs),
            topic_configs=_changed(before.topic_configs, observation.topic_configs),
            broker_configs=_changed(before.broker_configs, observation.broker_configs),
            census=_census_line(before.census, observation.census),
            census_gone=observation.census is None and before.census is not None,
            failures=None if observation.failures == before.failures else observation.failures,
        )
        self._before, self._seq = observation, seq
        return poll

    def _states(self, observation: Observation, before: Observation) -> Iterable[StateRow]:
        for tp, state in observation.partitions.items():
            if before.partitions.get(tp) != state:
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
        before = self._before.partitions
        return (self._of[tp] for tp in before if tp not in observation.partitions)

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


def _changed(before: Mapping[K, V], now: Mapping[K, V]) -> dict[K, V | None]:
    if before is now:
        return {}
    gone: dict[K, V | None] = {key: None for key in before if key not in now}
    return gone | {key: value for key, value in now.items() if before.get(key) != value}


def _census_line(before: Census | None, now: Census | None) -> CensusLine | None:
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


_LARGEST = 2**53  # largest offset or size: a million messages a second take 285 years to get there
_OLDEST_MS = 2**43  # largest age of a figure: as far apart as the times of two lines may be


class BrokenSequence(ValueError):
    """A poll does not continue the earlier ones: a line between is missing, or was changed."""


class Decoder:
    """Decodes the polls of one segment, in their order, into observations of its cluster."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._begin()
        self._seq: int | None = None

    def _begin(self) -> None:
        self._names: dict[int, tuple[TopicPartition, str | None]] = {}
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._absent: frozenset[TopicPartition] = frozenset()
        self._ends: dict[Replica, Reading] = {}
        self._starts: dict[TopicPartition, Reading] = {}
        self._sizes: dict[Replica, Reading] = {}
        self._brokers: dict[int, Any] = {}
        self._log_dirs: dict[int, Any] = {}
        self._topic_configs: dict[str, Any] = {}
        self._broker_configs: dict[int, Any] = {}
        self._census: Census | None = None
        self._failures: tuple[Any, ...] = ()
        self._copies: dict[int, Any] = {}

    def observation(self, poll: PollLine) -> Observation:
        """Return the observation of a poll; BrokenSequence unless it follows the previous one."""
        if poll.whole:
            self._begin()
        elif poll.follows is None or poll.follows != self._seq:
            raise BrokenSequence("it builds on a poll that is missing")
        try:
            observation = self._decoded(poll)
        except (KeyError, ValueError, OverflowError) as error:
            self._seq = None
            raise BrokenSequence(f"it does not fit the polls before it: {error!r}") from None
        self._seq = poll.seq
        return observation

    def _decoded(self, poll: PollLine) -> Observation:
        self._apply(poll)
        return Observation(
            cluster_id=self._cluster_id,
            controller=poll.controller,
            brokers=self._snapshot(self._brokers, poll.brokers),
            partitions=self._snapshot(self._partitions, poll.states, poll.unseen),
            absent=self._absent,
            fresh=poll.fresh,
            waits_for_kept=poll.waits_for_kept,
            refuses_cordoned=poll.refuses_cordoned,
            ends=self._snapshot(self._ends, poll.ends, poll.ends_gone),
            starts=self._snapshot(self._starts, poll.starts, poll.starts_gone),
            sizes=self._snapshot(self._sizes, poll.sizes, poll.sizes_gone),
            log_dirs=self._snapshot(self._log_dirs, poll.log_dirs),
            topic_configs=self._snapshot(self._topic_configs, poll.topic_configs),
            broker_configs=self._snapshot(self._broker_configs, poll.broker_configs),
            census=self._census,
            at=from_wall_ms(poll.at),
            monotonic_s=to_s(poll.ms),
            took_s=to_s(poll.took_ms),
            failures=self._failures,
        )

    def _snapshot(self, current: dict[K, V], *changes: Sized) -> Mapping[K, V]:
        """Copy a map of the current state; polls that do not change it share one copy."""
        if any(map(len, changes)) or id(current) not in self._copies:
            self._copies[id(current)] = dict(current)
        copy: Mapping[K, V] = self._copies[id(current)]
        return copy

    def _apply(self, poll: PollLine) -> None:
        for number, topic, partition, topic_id in poll.names:
            self._names[number] = (TopicPartition(topic, partition), topic_id)
        for row in poll.states:
            state = self._state(row)
            self._partitions[state.tp] = state
        for number in poll.unseen:
            del self._partitions[self._tp(number)]
        if poll.absent is not None:
            self._absent = frozenset(map(self._tp, poll.absent))
        self._read(self._ends, poll.ends, poll.ends_gone, poll.ms)
        self._read(self._sizes, poll.sizes, poll.sizes_gone, poll.ms)
        for age, figures in poll.starts:
            for number, grown in _pairs(figures):
                _grow(self._starts, self._tp(number), grown, _read_at(poll.ms, age))
        for number in poll.starts_gone:
            del self._starts[self._tp(number)]
        _change(self._brokers, poll.brokers)
        _change(self._log_dirs, poll.log_dirs)
        _change(self._topic_configs, poll.topic_configs)
        _change(self._broker_configs, poll.broker_configs)
        self._failures = self._failures if poll.failures is None else poll.failures
        if poll.census is not None or poll.census_gone:
            self._census = _census(poll.census)

    def _state(self, row: StateRow) -> PartitionState:
        tp, topic_id = self._names[row[0]]
        return PartitionState(tp, topic_id, *row[1:])

    def _tp(self, number: int) -> TopicPartition:
        return self._names[number][0]

    def _read(
        self,
        figures: dict[Replica, Reading],
        groups: Iterable[ReplicaFiguresLine],
        gone: Iterable[ReplicaGone],
        ms: int,
    ) -> None:
        for broker, age, row in groups:
            for number, grown in _pairs(row):
                _grow(figures, Replica(self._tp(number), broker), grown, _read_at(ms, age))
        for number, broker in gone:
            del figures[Replica(self._tp(number), broker)]


def _pairs(row: tuple[int, ...]) -> Iterable[tuple[int, int]]:
    return zip(row[::2], row[1::2], strict=True)


def _read_at(ms: int, age: int) -> int:
    if not -_OLDEST_MS <= age <= _OLDEST_MS:
        raise OverflowError(age)
    return ms - age


def _grow(figures: dict[K, Reading], key: K, grown: int, ms: int) -> None:
    last = figures.get(key)
    value = (last.value if last else 0) + grown
    if not -_LARGEST <= value <= _LARGEST:
        raise OverflowError(value)
    figures[key] = Reading(value, to_s(ms))


def _change(current: dict[K, V], changes: Mapping[K, V | None]) -> None:
    for key, value in changes.items():
        if value is None:
            current.pop(key, None)
        else:
            current[key] = value


def _census(line: CensusLine | None) -> Census | None:
    if line is None:
        return None
    return Census(
        at=from_wall_ms(line.at),
        monotonic_s=to_s(line.ms),
        took_s=to_s(line.took_ms),
        topics=line.topics,
        partitions=line.partitions,
        leaders=line.leaders,
        replicas=line.replicas,
        unhealthy=tuple(TopicPartition(topic, number) for topic, number in line.unhealthy),
        in_sync=line.in_sync,
    )
