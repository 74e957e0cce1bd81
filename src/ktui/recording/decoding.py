"""Looks into observations: the way back from `encoding`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import Any, TypeVar

from ktui.cluster.observation import Census, Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.recording.lines import CensusLine, PollLine, ReplicaFiguresLine, ReplicaGone, StateRow
from ktui.recording.milliseconds import moment, to_s

K = TypeVar("K")
V = TypeVar("V")

_LARGEST = 2**53
"""Of an offset or a size: a million messages a second take 285 years to get there."""
_OLDEST_MS = 2**43
"""Of a figure: as far apart as the times of two lines may be."""


class Incoherent(ValueError):
    """A look does not follow on those before it: a line between is missing, or was changed."""


class Decoder:
    """Turns the looks of one segment, in their order, into observations of its cluster."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._begin()
        self._seq: int | None = None
        """Of the last look that was taken in whole."""

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

    def observation(self, look: PollLine) -> Observation:
        """Give what a look tells of, together with those before it.

        Raises:
            Incoherent: it does not follow on the look before, and none does until a whole one.
        """
        if look.whole:
            self._begin()
        elif look.follows is None or look.follows != self._seq:
            raise Incoherent("it tells what is otherwise than in a look that is missing")
        try:
            seen = self._seen(look)
        except (KeyError, ValueError, OverflowError) as error:
            self._seq = None
            raise Incoherent(f"it does not fit the looks before it: {error!r}") from None
        self._seq = look.seq
        return seen

    def _seen(self, look: PollLine) -> Observation:
        self._take(look)
        return Observation(
            cluster_id=self._cluster_id,
            controller=look.controller,
            brokers=self._as_it_is(self._brokers, look.brokers),
            partitions=self._as_it_is(self._partitions, look.states, look.unseen),
            absent=self._absent,
            fresh=look.fresh,
            waits_for_kept=look.waits_for_kept,
            ends=self._as_it_is(self._ends, look.ends, look.ends_gone),
            starts=self._as_it_is(self._starts, look.starts, look.starts_gone),
            sizes=self._as_it_is(self._sizes, look.sizes, look.sizes_gone),
            log_dirs=self._as_it_is(self._log_dirs, look.log_dirs),
            topic_configs=self._as_it_is(self._topic_configs, look.topic_configs),
            broker_configs=self._as_it_is(self._broker_configs, look.broker_configs),
            census=self._census,
            at=moment(look.at),
            monotonic_s=to_s(look.ms),
            took_s=to_s(look.took_ms),
            failures=self._failures,
        )

    def _as_it_is(self, known: dict[K, V], *changes: Sized) -> Mapping[K, V]:
        """Copy what is known; looks that change nothing of it share one copy."""
        if any(map(len, changes)) or id(known) not in self._copies:
            self._copies[id(known)] = dict(known)
        copy: Mapping[K, V] = self._copies[id(known)]
        return copy

    def _take(self, look: PollLine) -> None:
        for number, topic, partition, topic_id in look.names:
            self._names[number] = (TopicPartition(topic, partition), topic_id)
        for row in look.states:
            state = self._state(row)
            self._partitions[state.tp] = state
        for number in look.unseen:
            del self._partitions[self._tp(number)]
        if look.absent is not None:
            self._absent = frozenset(map(self._tp, look.absent))
        self._read(self._ends, look.ends, look.ends_gone, look.ms)
        self._read(self._sizes, look.sizes, look.sizes_gone, look.ms)
        for age, figures in look.starts:
            for number, grown in _by_twos(figures):
                _grow(self._starts, self._tp(number), grown, _read_at(look.ms, age))
        for number in look.starts_gone:
            del self._starts[self._tp(number)]
        _change(self._brokers, look.brokers)
        _change(self._log_dirs, look.log_dirs)
        _change(self._topic_configs, look.topic_configs)
        _change(self._broker_configs, look.broker_configs)
        self._failures = self._failures if look.failures is None else look.failures
        if look.census is not None or look.census_gone:
            self._census = _census(look.census)

    def _state(self, row: StateRow) -> PartitionState:
        number, replicas, isr, leader, epoch, adding, removing, offline, elr, described = row
        tp, topic_id = self._names[number]
        return PartitionState(
            tp=tp,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            leader=leader,
            leader_epoch=epoch,
            adding=adding,
            removing=removing,
            offline=offline,
            elr=elr,
            described=described,
        )

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
            for number, grown in _by_twos(row):
                _grow(figures, Replica(self._tp(number), broker), grown, _read_at(ms, age))
        for number, broker in gone:
            del figures[Replica(self._tp(number), broker)]


def _by_twos(row: tuple[int, ...]) -> Iterable[tuple[int, int]]:
    return zip(row[::2], row[1::2], strict=True)


def _read_at(ms: int, age: int) -> int:
    """Return when a figure was read, ms of the recorder's clock."""
    if not -_OLDEST_MS <= age <= _OLDEST_MS:
        raise OverflowError(age)
    return ms - age


def _grow(figures: dict[K, Reading], key: K, grown: int, ms: int) -> None:
    last = figures.get(key)
    value = (last.value if last else 0) + grown
    if not -_LARGEST <= value <= _LARGEST:
        raise OverflowError(value)
    figures[key] = Reading(value, to_s(ms))


def _change(known: dict[K, V], changes: Mapping[K, V | None]) -> None:
    for key, value in changes.items():
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value


def _census(line: CensusLine | None) -> Census | None:
    if line is None:
        return None
    return Census(
        at=moment(line.at),
        monotonic_s=to_s(line.ms),
        took_s=to_s(line.took_ms),
        topics=line.topics,
        partitions=line.partitions,
        leaders=line.leaders,
        replicas=line.replicas,
        unhealthy=tuple(TopicPartition(topic, number) for topic, number in line.unhealthy),
    )
