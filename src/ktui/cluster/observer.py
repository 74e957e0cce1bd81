"""The polling of a cluster: a poll costs what is in flight, not what the cluster holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from ktui.cluster.asking import Asking
from ktui.cluster.census import take_census
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Operation
from ktui.cluster.figures import Figures
from ktui.cluster.following import Following
from ktui.cluster.observation import Census, Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, TopicsAnswer

CENSUS_EVERY_S = 30.0
MOST_UNHEALTHY = 2_000
"""Unhealthy partitions looked at in every poll; the census counts all of them."""


class Interest(msgspec.Struct, frozen=True):
    """What a view wants beyond the partitions being reassigned."""

    topics: frozenset[str] = frozenset()
    """All partitions of these topics."""
    unhealthy: bool = False
    """Partitions that are offline or have replicas out of the ISR, anywhere in the cluster."""
    census: bool = False
    """Counts over the whole cluster, every 30 s and when a broker goes or comes, and all disks."""


NO_INTEREST = Interest()


class Observer:
    """Makes one `Observation` a poll from a `ClusterReader`.

    List first; then metadata of the topics concerned; then, per broker and all at once, the log
    ends of the replicas that catch up. Whoever has not answered within `patience_s` is named in
    `failures` and keeps its last figures.
    """

    def __init__(self, reader: ClusterReader, clock: Clock, *, patience_s: float = 0.75) -> None:
        self._reader = reader
        self._clock = clock
        self._figures = Figures(reader, clock, patience_s)
        self._polling = asyncio.Lock()
        self._following = Following(clock)
        self._alive: frozenset[int] = frozenset()
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
            cluster, listed = await self._cluster_and_list()
            census = self._last_census(interest, cluster)
            followed = self._following.due(listed)
            wanted = {*listed, *followed, *_unhealthy(interest, census)}
            topics = await self._describe(interest.topics | {tp.topic for tp in wanted})
            partitions = _concerned(topics, listed, wanted, interest)
            await self._figures.read(
                cluster,
                [state for state in partitions.values() if state.catching_up],
                frozenset(tp.topic for tp in partitions),
                everyone=interest.census,
            )
            return self._observation(cluster, topics, partitions, wanted, census, started)

    async def _cluster_and_list(
        self,
    ) -> tuple[ClusterDescription, Mapping[TopicPartition, Reassignment]]:
        return await asyncio.gather(
            self._reader.describe_cluster(), self._reader.list_reassignments()
        )

    def _last_census(self, interest: Interest, cluster: ClusterDescription) -> Census | None:
        self._census.harvest()
        alive = frozenset(broker.id for broker in cluster.brokers.values() if broker.alive)
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

    async def _describe(self, names: frozenset[str]) -> TopicsAnswer:
        return await self._reader.describe_topics(names) if names else TopicsAnswer({})

    def _observation(
        self,
        cluster: ClusterDescription,
        topics: TopicsAnswer,
        partitions: Mapping[TopicPartition, PartitionState],
        wanted: set[TopicPartition],
        census: Census | None,
        started: float,
    ) -> Observation:
        undescribed = {failure.topic for failure in topics.failures}
        now = self._clock.monotonic()
        figures = self._figures
        return Observation(
            cluster_id=cluster.cluster_id,
            controller=cluster.controller,
            brokers=cluster.brokers,
            partitions=partitions,
            absent=frozenset(
                tp for tp in wanted - partitions.keys() if tp.topic not in undescribed
            ),
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
            failures=(*topics.failures, *figures.failures, *self._census.failures()),
        )

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
    for tp, reassignment in listed.items():
        state = concerned.get(tp) or PartitionState(tp, None, (), (), None, described=False)
        concerned[tp] = state.with_reassignment(reassignment)
    return concerned
