"""The polling of a cluster: a poll costs what is in flight, not what the cluster holds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ktui.cluster.asking import Asking
from ktui.cluster.census import take_census
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.figures import ClusterFigures
from ktui.cluster.following import Following
from ktui.cluster.fresh_read import FreshMetadata, cluster_and_list, with_reassignments
from ktui.cluster.observation import Census, Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, TopicsAnswer

CENSUS_EVERY_S = 30.0
MOST_UNHEALTHY = 2_000
"""Unhealthy partitions looked at in every poll, the worst of them; the census counts all."""


class Interest(msgspec.Struct, frozen=True):
    """What a view or a run wants beyond the partitions being reassigned."""

    topics: frozenset[str] = frozenset()
    """All partitions of these topics."""
    partitions: frozenset[TopicPartition] = frozenset()
    fresh: bool = False
    """Metadata known to be no older than the poll, where the cluster can tell."""
    unhealthy: bool = False
    """Partitions that are offline or have replicas out of the ISR, anywhere in the cluster."""
    census: bool = False
    """Counts over the whole cluster, every 30 s and when a broker goes or comes, and all disks."""


NO_INTEREST = Interest()


class Observations(Protocol):
    """Where observations come from; `Observer` is one."""

    async def poll(self, interest: Interest) -> Observation:
        """Look once.

        Raises:
            ClusterError: the cluster is lost.
        """
        ...

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have the settings of topics and brokers read again in the next look: someone set them."""
        ...


class _Look(NamedTuple):
    """What the list and the metadata say."""

    partitions: Mapping[TopicPartition, PartitionState]
    absent: frozenset[TopicPartition]
    failures: tuple[Failure, ...]
    fresh: bool


class Observer:
    """Makes one `Observation` a poll from a `ClusterReader`.

    List first; then metadata of the topics concerned; then, per broker and all at once, the log
    ends of the replicas that catch up. Whoever has not answered within `patience_s` is named in
    `failures` and keeps its last figures.
    """

    def __init__(self, reader: ClusterReader, clock: Clock, *, patience_s: float = 0.75) -> None:
        self._reader = reader
        self._clock = clock
        self._figures = ClusterFigures(reader, clock, patience_s)
        self._polling = asyncio.Lock()
        self._following = Following(clock)
        self._alive: frozenset[int] = frozenset()
        self._chosen: frozenset[TopicPartition] = frozenset()
        """The partitions known of the topics of the interest."""
        self._metadata = FreshMetadata(reader, clock)
        self._census: Asking[None, Census] = Asking(
            Operation.CENSUS, clock, every_s=CENSUS_EVERY_S, late_after_s=CENSUS_EVERY_S
        )

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        """Look once. Polls never overlap: a second caller waits for the first.

        Raises:
            ClusterError: the list, the brokers or the metadata could not be had from anyone.
        """
        async with self._polling:
            started = self._clock.monotonic()
            cluster, listed = await cluster_and_list(self._reader)
            census = self._last_census(interest, cluster)
            followed = self._following.due(listed)
            wanted = {*listed, *followed, *interest.partitions, *_unhealthy(interest, census)}
            look = await self._look(listed, wanted, interest)
            await self._figures.read(
                cluster,
                [state for state in look.partitions.values() if state.catching_up],
                frozenset(tp.topic for tp in look.partitions),
                everyone=interest.census,
            )
            return self._observation(cluster, look, census, started)

    def _last_census(self, interest: Interest, cluster: ClusterDescription) -> Census | None:
        self._census.harvest()
        alive = cluster.online
        if alive != self._alive:  # what was healthy may not be any more
            self._alive = alive
            self._census.expire(None)
        if not (interest.census or interest.unhealthy):
            self._census.forgive(())
            return None
        if self._census.due(None):
            self._census.ask(None, take_census(self._reader.scan_topics(), self._clock))
        answer = self._census.answers.get(None)
        return None if answer is None else answer.value

    async def _look(
        self,
        listed: Mapping[TopicPartition, Reassignment],
        wanted: set[TopicPartition],
        interest: Interest,
    ) -> _Look:
        names = interest.topics | {tp.topic for tp in wanted}
        topics, fresh = await self._metadata.describe(names, fresh=interest.fresh)
        partitions = _concerned(topics, listed, wanted, interest)
        chosen = {tp for tp in (*self._chosen, *partitions) if tp.topic in interest.topics}
        undescribed = {failure.topic for failure in topics.failures}
        missing = (wanted | chosen) - partitions.keys()
        absent = frozenset(tp for tp in missing if tp.topic not in undescribed)
        self._chosen = frozenset(chosen - absent)
        return _Look(partitions, absent, topics.failures, fresh)

    def _observation(
        self,
        cluster: ClusterDescription,
        look: _Look,
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
            partitions=look.partitions,
            absent=look.absent,
            fresh=look.fresh,
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
            failures=(*look.failures, *figures.failures, *self._census.failures()),
        )

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Have the settings of topics and brokers read again in the next poll.

        Those read before stand until then, also where an answer is still on its way; of brokers
        only those are asked that the poll is about.
        """
        self._figures.settings_changed(topics, brokers)

    async def aclose(self) -> None:
        """Cancel what is open. The reader is its owner's to close."""
        await self._census.aclose()
        await self._figures.aclose()


def _unhealthy(interest: Interest, census: Census | None) -> Sequence[TopicPartition]:
    return census.unhealthy[:MOST_UNHEALTHY] if interest.unhealthy and census is not None else ()


def _concerned(
    topics: TopicsAnswer,
    listed: Mapping[TopicPartition, Reassignment],
    wanted: set[TopicPartition],
    interest: Interest,
) -> dict[TopicPartition, PartitionState]:
    """The partitions that anybody asked for, the list laid over the metadata."""
    concerned = {
        tp: state
        for tp, state in topics.partitions.items()
        if tp in wanted or tp.topic in interest.topics
    }
    return with_reassignments(concerned, listed)
