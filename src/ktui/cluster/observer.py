"""The polling of a cluster. A poll costs what is in flight, not what the cluster holds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from ktui.cluster.asking import (
    FreshMetadata,
    RequestsByKey,
    read_cluster_and_reassignments,
    with_reassignments,
)
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.figures import ClusterFigures, RecentlyReassigned, take_census
from ktui.cluster.observation import Census, Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, TopicsAnswer

CENSUS_EVERY_S = 30.0
CENSUS_REST = 100  # times as long as it took: a census that only counts for the header
_HEALTH_TOPICS = 100  # whose min.insync.replicas is read for the counts, worst first
MOST_UNHEALTHY = 2_000  # unhealthy partitions read in every poll; the census counts all


class Interest(msgspec.Struct, frozen=True):
    """The data that a view or a run wants beyond the partitions being reassigned."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    fresh: bool = False  # no older than the poll, where the cluster can prove its age
    unhealthy: bool = False  # whether to read partitions offline or with replicas out of the ISR
    census: bool = False  # all disks and partitions: every 30 s, and as brokers change
    log_dirs: bool = False
    health: bool = False  # count unhealthy partitions: a census in at most 1% of the time


NO_INTEREST = Interest()


class ObservationSource(Protocol):
    """A source of observations, such as `Observer`."""

    async def poll(self, interest: Interest) -> Observation: ...

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None: ...


class SourceWrapper:
    """A source that polls through another one; what it adds to a poll is in its subclasses."""

    def __init__(self, source: ObservationSource) -> None:
        self._source = source

    async def poll(self, interest: Interest) -> Observation:
        return await self._source.poll(interest)

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        self._source.settings_changed(topics, brokers)


class _PolledPartitions(NamedTuple):
    partitions: Mapping[TopicPartition, PartitionState]
    absent: frozenset[TopicPartition]
    failures: tuple[Failure, ...]
    fresh: bool


class Observer:
    """Makes one `Observation` per poll: the list first, then metadata, then log ends at once.

    A broker late by `patience_s` is named in `failures`, and its last figures are kept.
    """

    def __init__(self, reader: ClusterReader, clock: Clock, *, patience_s: float = 0.75) -> None:
        self._reader = reader
        self._clock = clock
        self._figures = ClusterFigures(reader, clock, patience_s)
        self._polling = asyncio.Lock()
        self._following = RecentlyReassigned(clock)
        self._alive: frozenset[int] = frozenset()
        self._chosen: frozenset[TopicPartition] = frozenset()
        self._metadata = FreshMetadata(reader, clock)
        self._counts_whole = False
        self._census: RequestsByKey[None, Census] = RequestsByKey(
            Operation.CENSUS, clock, every_s=CENSUS_EVERY_S, late_after_s=CENSUS_EVERY_S
        )

    def wait_for_brokers(self, patience_s: float) -> None:
        self._figures.patience_s = patience_s

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        async with self._polling:
            started = self._clock.monotonic()
            cluster, listed = await read_cluster_and_reassignments(self._reader)
            census = self._last_census(interest, cluster)
            followed = self._following.due(listed)
            wanted = {*listed, *followed, *interest.partitions, *_unhealthy(interest, census)}
            polled = await self._partitions(listed, wanted, interest)
            await self._figures.read(
                cluster,
                [state for state in polled.partitions.values() if state.catching_up],
                frozenset(tp.topic for tp in polled.partitions) | _judged(interest, census),
                everyone=interest.census,
                all_log_dirs=interest.census or interest.log_dirs,
            )
            return self._observation(cluster, polled, census, started)

    def _last_census(self, interest: Interest, cluster: ClusterDescription) -> Census | None:
        self._census.harvest()
        alive = cluster.online
        if alive != self._alive:  # healthy partitions may have become unhealthy
            self._alive = alive
            self._census.expire(None)
        whole = interest.census or interest.unhealthy
        if whole and not self._counts_whole:  # the last census may be as old as it may be rare
            self._census.expire(None)
        self._counts_whole = whole
        if not (whole or interest.health):
            self._census.forgive(())
            return None
        if self._census.due(None) and (whole or self._census_rested()):
            self._census.ask(None, take_census(self._reader.scan_topics(), self._clock))
        answer = self._census.answers.get(None)
        return None if answer is None else answer.value

    def _census_rested(self) -> bool:
        last = self._census.answers.get(None)
        if last is None or self._census.expired(None):
            return True
        return self._clock.monotonic() - last.at_s >= CENSUS_REST * last.value.took_s

    async def _partitions(
        self,
        listed: Mapping[TopicPartition, Reassignment],
        wanted: set[TopicPartition],
        interest: Interest,
    ) -> _PolledPartitions:
        names = interest.topics | {tp.topic for tp in wanted}
        topics, fresh = await self._metadata.describe(names, fresh=interest.fresh)
        partitions = _concerned(topics, listed, wanted, interest)
        chosen = {tp for tp in (*self._chosen, *partitions) if tp.topic in interest.topics}
        undescribed = {failure.topic for failure in topics.failures}
        missing = (wanted | chosen) - partitions.keys()
        absent = frozenset(tp for tp in missing if tp.topic not in undescribed)
        self._chosen = frozenset(chosen - absent)
        return _PolledPartitions(partitions, absent, topics.failures, fresh)

    def _observation(
        self,
        cluster: ClusterDescription,
        polled: _PolledPartitions,
        census: Census | None,
        started: float,
    ) -> Observation:
        now = self._clock.monotonic()
        figures = self._figures
        return Observation(
            cluster_id=cluster.cluster_id,
            controller=cluster.controller,
            brokers=cluster.brokers,
            waits_for_kept=cluster.waits_for_kept,
            refuses_cordoned=cluster.refuses_cordoned,
            partitions=polled.partitions,
            absent=polled.absent,
            fresh=polled.fresh,
            ends=figures.ends,
            starts=figures.starts,
            sizes=figures.sizes,
            log_dirs=figures.log_dirs,
            topic_configs=figures.topic_configs,
            broker_configs=figures.broker_configs,
            census=census,
            at=self._clock.now(),
            monotonic_s=now,
            took_s=now - started,
            failures=(*polled.failures, *figures.failures, *self._census.failures()),
        )

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        self._figures.settings_changed(topics, brokers)

    async def aclose(self) -> None:
        """Cancel open requests. The reader stays open: its owner closes it."""
        await self._census.aclose()
        await self._figures.aclose()


def _unhealthy(interest: Interest, census: Census | None) -> Sequence[TopicPartition]:
    return census.unhealthy[:MOST_UNHEALTHY] if interest.unhealthy and census is not None else ()


def _judged(interest: Interest, census: Census | None) -> frozenset[str]:
    if not interest.health or census is None:
        return frozenset()
    return frozenset(islice(dict.fromkeys(tp.topic for tp in census.unhealthy), _HEALTH_TOPICS))


def _concerned(
    topics: TopicsAnswer,
    listed: Mapping[TopicPartition, Reassignment],
    wanted: set[TopicPartition],
    interest: Interest,
) -> dict[TopicPartition, PartitionState]:
    found = topics.partitions
    if interest.topics:
        whole = interest.topics
        concerned = {tp: found[tp] for tp in found if tp in wanted or tp.topic in whole}
    else:  # few of the partitions of many topics
        concerned = {tp: found[tp] for tp in sorted(wanted & found.keys())}
    return with_reassignments(concerned, listed)
