"""The replicas of a cluster's partitions, and the brokers that replicas may go to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from ktui.cluster.broker import cordoned_brokers
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.fresh_read import with_reassignments
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, LogDirsAnswer
from ktui.planning.check.disks import call_each_broker
from ktui.planning.replication_factor import BrokerPool


class Placement(msgspec.Struct, frozen=True):
    """Every partition that may be described, with its reassignment, and the brokers."""

    partitions: Mapping[TopicPartition, PartitionState]
    pool: BrokerPool
    brokers: frozenset[int]
    """Every broker that is registered or has a replica, also those that are down."""
    unregistered: frozenset[int] = frozenset()
    """Of these, the ids that only replica lists still have: they are no brokers any more."""


class PlacementAnswer(msgspec.Struct, frozen=True):
    """A placement, and what the brokers answer about their log dirs."""

    placement: Placement
    log_dirs: Mapping[int, LogDirsAnswer]
    """By broker, as far as they answered."""
    failures: Sequence[Failure]


async def read_with_log_dirs(
    reader: ClusterReader, sized: Collection[TopicPartition] | None
) -> PlacementAnswer:
    """Read a placement, with the answers of all live brokers about their log dirs.

    A broker that does not report its log dirs counts as not cordoned.

    Args:
        reader: the cluster.
        sized: the partitions whose replicas the brokers report; None for all.

    Raises:
        ClusterError: the brokers, the topics or the reassignments cannot be read.
    """
    cluster, listed = await asyncio.gather(reader.describe_cluster(), reader.list_reassignments())
    (answers, failures), states = await asyncio.gather(
        _log_dirs(reader, cluster, sized), _partitions(reader)
    )
    known = {tp: moving for tp, moving in listed.items() if tp in states}
    replicas = _count(states)
    placement = Placement(
        partitions=with_reassignments(states, known),
        pool=_pool(cluster, _cordoned(answers), replicas),
        brokers=frozenset(cluster.brokers) | replicas.keys(),
        unregistered=cluster.unregistered(replicas),
    )
    return PlacementAnswer(placement, answers, failures)


async def read_pool(reader: ClusterReader) -> BrokerPool:
    """Read which brokers may get replicas, and how many each has.

    A broker that does not report its log dirs counts as not cordoned.

    Raises:
        ClusterError: the brokers or the topics cannot be read.
    """
    cluster = await reader.describe_cluster()
    (answers, _), replicas = await asyncio.gather(_log_dirs(reader, cluster, ()), _census(reader))
    return _pool(cluster, _cordoned(answers), replicas)


def _pool(
    cluster: ClusterDescription, cordoned: frozenset[int], replicas: Counter[int]
) -> BrokerPool:
    return BrokerPool(
        online=cluster.online,
        cordoned=cordoned,
        refuses_cordoned=bool(cluster.refuses_cordoned),
        racks={broker.id: broker.rack for broker in cluster.brokers.values()},
        replicas=replicas,
    )


async def _log_dirs(
    reader: ClusterReader, cluster: ClusterDescription, sized: Collection[TopicPartition] | None
) -> tuple[Mapping[int, LogDirsAnswer], Sequence[Failure]]:
    return await call_each_broker(
        Operation.LOG_DIRS, {broker: reader.log_dirs(broker, sized) for broker in cluster.online}
    )


def _cordoned(answers: Mapping[int, LogDirsAnswer]) -> frozenset[int]:
    return cordoned_brokers({b: answer.log_dirs for b, answer in answers.items()})


async def _census(reader: ClusterReader) -> Counter[int]:
    counts: Counter[int] = Counter()
    async for page in reader.scan_topics():
        counts += _count(page.partitions)
    return counts


async def _partitions(reader: ClusterReader) -> dict[TopicPartition, PartitionState]:
    states: dict[TopicPartition, PartitionState] = {}
    async for page in reader.scan_topics():
        states.update(page.partitions)
    return states


def _count(states: Mapping[TopicPartition, PartitionState]) -> Counter[int]:
    return Counter(broker for state in states.values() for broker in state.replicas)
