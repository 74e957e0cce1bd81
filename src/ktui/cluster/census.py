"""The census: a count of all partitions of a cluster, page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Census
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import TopicsAnswer


async def take_census(pages: AsyncIterator[TopicsAnswer], clock: Clock) -> Census:
    """Count leaders and replicas per broker, and find unhealthy partitions."""
    started = clock.monotonic()
    topics: set[str] = set()
    partitions = 0
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    unhealthy: list[tuple[int, TopicPartition]] = []
    async for page in pages:
        partitions += len(page.partitions)
        topics.update(tp.topic for tp in page.partitions)
        for state in page.partitions.values():
            replicas.update(state.replicas)
            if state.leader is not None:
                leaders[state.leader] += 1
            if _looks_unhealthy(state):
                unhealthy.append((0 if state.leader is None else len(state.isr), state.tp))
    unhealthy.sort()
    return Census(
        at=clock.now(),
        monotonic_s=clock.monotonic(),
        took_s=clock.monotonic() - started,
        topics=len(topics),
        partitions=partitions,
        leaders=dict(leaders),
        replicas=dict(replicas),
        unhealthy=tuple(tp for _, tp in unhealthy),
        in_sync=tuple(size for size, _ in unhealthy),
    )


def _looks_unhealthy(state: PartitionState) -> bool:
    # Metadata does not mark adding replicas: a moving partition is judged once it is listed.
    return state.leader is None or len(state.isr) < len(state.replicas)
