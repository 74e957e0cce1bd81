"""Reads of chosen partitions as they are now: the list of reassignments, then fresh metadata."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping

from ktui.cluster.clock import Clock, first_of
from ktui.cluster.errors import TimedOut, Unsupported
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, TopicConfigsAnswer, TopicsAnswer

FRESH_AGAIN_S = 60.0
"""How long a cluster that does not tell how old metadata is is not asked for it again."""


FRESH_WITHIN_S = 2.0
"""How long a request waits for fresh metadata: what it rests on may be 5 s old when it leaves."""


class FreshMetadata:
    """Metadata known to be no older than the call, where the cluster can tell."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._from_s = -math.inf

    async def describe(
        self, names: Collection[str], *, fresh: bool = True, within_s: float = math.inf
    ) -> tuple[TopicsAnswer, bool]:
        """Describe topics; the second value is whether the answer is known to be fresh.

        Args:
            names: of the topics.
            fresh: whether fresh metadata is waited for.
            within_s: for how long; then metadata is taken as it is.

        Raises:
            ClusterError: no broker answered.
        """
        if not names:
            return TopicsAnswer({}), fresh
        if fresh and self._clock.monotonic() >= self._from_s:
            try:
                return await self._within(within_s, names), True
            except Unsupported:
                self._from_s = self._clock.monotonic() + FRESH_AGAIN_S
            except TimedOut:
                pass
        return await self._reader.describe_topics(names), False

    async def _within(self, seconds: float, names: Collection[str]) -> TopicsAnswer:
        if seconds == math.inf:
            return await self._reader.describe_topics(names, fresh=True)
        asking = asyncio.ensure_future(self._reader.describe_topics(names, fresh=True))
        try:
            await first_of(asyncio.wait([asking]), self._clock.sleep(seconds))
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        raise TimedOut("waiting for fresh metadata", answer=f"none within {seconds:.0f} s")


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
        cluster, listed = await cluster_and_list(self._reader)
        names = frozenset(tp.topic for tp in partitions)
        (topics, fresh), configs = await asyncio.gather(
            self._metadata.describe(names, within_s=FRESH_WITHIN_S),
            self._configs(names if settings else frozenset()),
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


async def cluster_and_list(
    reader: ClusterReader,
) -> tuple[ClusterDescription, Mapping[TopicPartition, Reassignment]]:
    """Ask who is there and what is being reassigned, both at once.

    Raises:
        ClusterError: one of them is not told.
    """
    return await asyncio.gather(reader.describe_cluster(), reader.list_reassignments())


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
