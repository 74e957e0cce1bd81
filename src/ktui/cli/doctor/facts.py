"""Gather the facts that the doctor judges: every broker and every topic, read once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from ktui.cli.doctor.findings import DoctorFacts
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterReader, TopicConfigsAnswer
from ktui.progress.health import Health, health

A = TypeVar("A")
Visible = Callable[[Collection[str] | None], Awaitable[Collection[str]]]
"""Returns those of the named topics, or of all, that Metadata shows."""


async def gather_facts(reader: ClusterReader, visible: Visible) -> DoctorFacts:
    """Read the whole cluster once.

    Args:
        reader: the cluster.
        visible: returns those of the named topics, or of all, that Metadata shows.

    Raises:
        ClusterError: not even the brokers can be listed. Anything else that cannot be read becomes
            a sentence in `unread`.
    """
    cluster = await reader.describe_cluster()
    unread: list[str] = []
    alive = sorted(cluster.online)
    listed = await _tried(reader.list_reassignments(), unread)
    dirs = await _per_broker(alive, [reader.log_dirs(b, ()) for b in alive], unread)
    configs = await _per_broker(alive, [reader.broker_config(b) for b in alive], unread)
    factors, counts, suspects, healthy = await _scan(reader, listed or {}, unread)
    topics = await _tried(reader.topic_configs(factors), unread)
    lost = await _tried(_out_of_reach(reader, visible, factors, topics), unread) or frozenset()
    if topics is not None:
        unread += [f.sentence for f in topics.failures if f.topic not in topics.absent]
    topic_configs = {} if topics is None else topics.configs
    found = Counter(health(s, topic_configs.get(s.tp.topic)) for s in suspects)
    return DoctorFacts(
        brokers=cluster.brokers,
        moving=None if listed is None else frozenset(listed),
        log_dirs=tuple(log_dir for answer in dirs.values() for log_dir in answer.log_dirs),
        broker_configs=configs,
        topic_configs=topic_configs,
        replication_factors=factors,
        mixed_factors={topic: each for topic, each in counts.items() if len(each) > 1},
        health=found + Counter({Health.OK: healthy}),
        out_of_reach=lost,
        unread=tuple(unread),
    )


async def _out_of_reach(
    reader: ClusterReader,
    visible: Visible,
    described: Collection[str],
    settings: TopicConfigsAnswer | None,
) -> frozenset[str]:
    """Return topics that Metadata shows, and that brokers do not know when asked about them.

    Each is asked about twice, since topics are created and deleted at any time.
    """
    doubted = set(await visible(None)).difference(described)
    doubted |= set() if settings is None else set(settings.absent)
    if not doubted:
        return frozenset()
    shown = frozenset(await visible(doubted))
    topics, configs = await reader.describe_topics(shown), await reader.topic_configs(shown)
    return shown & topics.absent.union(configs.absent)


async def _tried(call: Coroutine[Any, Any, A], unread: list[str]) -> A | None:
    try:
        return await call
    except ClusterError as error:
        unread.append(str(error))
        return None


async def _per_broker(
    brokers: Collection[int], calls: Collection[Coroutine[Any, Any, A]], unread: list[str]
) -> dict[int, A]:
    answers = await asyncio.gather(*(_tried(call, unread) for call in calls))
    return {b: answer for b, answer in zip(brokers, answers, strict=True) if answer is not None}


async def _scan(
    reader: ClusterReader, listed: Mapping[TopicPartition, Reassignment], unread: list[str]
) -> tuple[dict[str, int], dict[str, Counter[int]], list[PartitionState], int]:
    """Return each topic's replication factor, the partitions to judge, and the healthy count.

    The second value has each topic's partitions at rest, counted by their number of replicas.
    """
    factors: dict[str, int] = {}
    counts: dict[str, Counter[int]] = {}
    suspects: list[PartitionState] = []
    healthy = 0
    try:
        async for page in reader.scan_topics():
            unread += [failure.sentence for failure in page.failures]
            for tp, state in page.partitions.items():
                true = state.with_reassignment(listed[tp]) if tp in listed else state
                factors[tp.topic] = min(len(true.original), factors.get(tp.topic, 1_000_000))
                if not true.reassigning:
                    counts.setdefault(tp.topic, Counter())[len(true.replicas)] += 1
                if true.leader is None or true.out_of_sync:
                    suspects.append(true)
                else:
                    healthy += 1
    except ClusterError as error:
        unread.append(str(error))
    return factors, counts, suspects, healthy
