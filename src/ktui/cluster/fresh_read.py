"""Reads of chosen partitions in their present state: reassignments, then fresh metadata.

Before a request, reassignments are listed once more: metadata that waits to be fresh shows the
partition as it was when the wait began, and others may have begun to move it since.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping

from ktui.cluster.clock import Clock, wait_at_most
from ktui.cluster.errors import TimedOut, Unsupported
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, TopicConfigsAnswer, TopicsAnswer

LEAVES_WITHIN_S = 5.0
"""A request leaves within this time of the last read that it rests on, or not at all.

This is a promise of safety (docs/runs.md, what a request rests on). The longer it is, the more can
change between a read and its request. Shorter, slow brokers would keep requests from leaving.
"""
FRESH_AGAIN_S = 60.0  # before asking a cluster again that does not support it


FRESH_WITHIN_S = 2.0  # for which a request waits; it may rest on reads at most 5 s old


class FreshMetadata:
    """Metadata proven to be no older than the call, where the cluster supports that."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._from_s = -math.inf

    async def describe(
        self, names: Collection[str], *, fresh: bool = True, within_s: float = math.inf
    ) -> tuple[TopicsAnswer, bool]:
        if not names:
            return TopicsAnswer({}), fresh
        if fresh and self._clock.monotonic() >= self._from_s:
            try:
                return await self._fresh_within(within_s, names), True
            except Unsupported:
                self._from_s = self._clock.monotonic() + FRESH_AGAIN_S
            except TimedOut:
                pass
        return await self._reader.describe_topics(names), False

    async def _fresh_within(self, seconds: float, names: Collection[str]) -> TopicsAnswer:
        if seconds == math.inf:
            return await self._reader.describe_topics(names, fresh=True)
        asking = asyncio.ensure_future(self._reader.describe_topics(names, fresh=True))
        try:
            await wait_at_most(seconds, asking, self._clock)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        raise TimedOut("waiting for fresh metadata", answer=f"none within {seconds:.0f} s")


class FreshRead:
    """Reads made for one request, with its own timing: no poll delays them."""

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._metadata = FreshMetadata(reader, clock)

    async def read(
        self,
        partitions: Collection[TopicPartition],
        *,
        settings: bool = False,
        to_cancel: bool = False,
    ) -> Observation:
        """Read the state of some partitions, without figures.

        Partitions that others reassign are in the answer, undescribed. What either list has counts
        as being reassigned; for a null cancel (`to_cancel`) only what the last list has, so that it
        meets nothing begun since. `asked_s` is the second before the first list.
        """
        asked_s = self._clock.monotonic()
        cluster, listed = await read_cluster_and_reassignments(self._reader)
        names = frozenset(tp.topic for tp in partitions)
        (topics, fresh), configs = await asyncio.gather(
            self._metadata.describe(names, within_s=FRESH_WITHIN_S),
            self._configs(names if settings else frozenset()),
        )
        last = await self._reader.list_reassignments()
        listed = last if to_cancel else {**listed, **last}
        chosen = frozenset(partitions)
        wanted = {tp: state for tp, state in topics.partitions.items() if tp in chosen}
        hidden = {failure.topic for failure in topics.failures}
        missing = {tp for tp in chosen if tp not in wanted and tp.topic not in hidden}
        now_s = self._clock.monotonic()
        return Observation(
            cluster_id=cluster.cluster_id,
            controller=cluster.controller,
            brokers=cluster.brokers,
            waits_for_kept=cluster.waits_for_kept,
            refuses_cordoned=cluster.refuses_cordoned,
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


async def read_cluster_and_reassignments(
    reader: ClusterReader,
) -> tuple[ClusterDescription, Mapping[TopicPartition, Reassignment]]:
    """Read the cluster's brokers and its ongoing reassignments, both at once."""
    return await asyncio.gather(reader.describe_cluster(), reader.list_reassignments())


def with_reassignments(
    states: Mapping[TopicPartition, PartitionState], listed: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, PartitionState]:
    """Overlay the controller's list on metadata; `described=False` for partitions only it has."""
    merged = dict(states)
    for tp, reassignment in listed.items():
        state = merged.get(tp) or PartitionState(tp, None, (), (), None, described=False)
        merged[tp] = state.with_reassignment(reassignment)
    return merged
