"""Reads of chosen partitions as they are now: the list of reassignments, then fresh metadata."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping

from ktui.cluster.clock import Clock
from ktui.cluster.errors import TimedOut, Unsupported
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterReader, TopicConfigsAnswer, TopicsAnswer

FRESH_AGAIN_S = 60.0
"""How long a cluster that does not tell how old metadata is is not asked for it again."""


class FreshMetadata:
    """Metadata known to be no older than the call, where the cluster can tell."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._from_s = -math.inf

    async def describe(
        self, names: Collection[str], *, fresh: bool = True
    ) -> tuple[TopicsAnswer, bool]:
        """Describe topics; the second value is whether the answer is known to be fresh.

        Raises:
            ClusterError: no broker answered.
        """
        if not names:
            return TopicsAnswer({}), fresh
        if fresh and self._clock.monotonic() >= self._from_s:
            try:
                return await self._reader.describe_topics(names, fresh=True), True
            except Unsupported:
                self._from_s = self._clock.monotonic() + FRESH_AGAIN_S
            except TimedOut:
                pass
        return await self._reader.describe_topics(names), False


class FreshRead:
    """Reads made for one request, in a connection's own time: no poll holds them up."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._metadata = FreshMetadata(reader, clock)

    async def read(
        self, partitions: Collection[TopicPartition], *, settings: bool = False
    ) -> Observation:
        """Read some partitions, without figures.

        Args:
            partitions: which; all that others reassign are in the answer, too, undescribed.
            settings: whether the settings of their topics are read as well.

        Returns:
            An observation whose `asked_s` is the second before the list was asked for.

        Raises:
            ClusterError: the list, the brokers, the metadata or the settings could not be read.
        """
        asked_s = self._clock.monotonic()
        cluster, listed = await asyncio.gather(
            self._reader.describe_cluster(), self._reader.list_reassignments()
        )
        names = frozenset(tp.topic for tp in partitions)
        (topics, fresh), configs = await asyncio.gather(
            self._metadata.describe(names), self._configs(names if settings else frozenset())
        )
        wanted = {tp: state for tp, state in topics.partitions.items() if tp in partitions}
        hidden = {failure.topic for failure in topics.failures}
        missing = {tp for tp in partitions if tp not in wanted and tp.topic not in hidden}
        now_s = self._clock.monotonic()
        return Observation(
            cluster_id=cluster.cluster_id,
            controller=cluster.controller,
            brokers=cluster.brokers,
            waits_for_kept=cluster.waits_for_kept,
            partitions=with_reassignments(wanted, listed),
            absent=frozenset(missing - listed.keys()),
            fresh=fresh,
            topic_configs=configs.configs,
            at=self._clock.now(),
            monotonic_s=now_s,
            took_s=now_s - asked_s,
            failures=(*topics.failures, *configs.failures),
        )

    async def _configs(self, names: frozenset[str]) -> TopicConfigsAnswer:
        return await self._reader.topic_configs(names) if names else TopicConfigsAnswer({})


def with_reassignments(
    states: Mapping[TopicPartition, PartitionState],
    listed: Mapping[TopicPartition, Reassignment],
) -> dict[TopicPartition, PartitionState]:
    """Lay the controllers' list over metadata; what only the list has is `described=False`."""
    laid = dict(states)
    for tp, reassignment in listed.items():
        state = laid.get(tp) or PartitionState(tp, None, (), (), None, described=False)
        laid[tp] = state.with_reassignment(reassignment)
    return laid
