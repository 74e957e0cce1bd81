"""Plans that are generated: brokers drained, or another replication factor for topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgspec

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.planning.names import closest_names, join_all, join_named, shortened
from ktui.planning.objective import is_canary
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.replication_factor import (
    BrokerPool,
    FactorProblem,
    PresentReplicas,
    change_replication_factor,
    present_replicas,
)

_States = Mapping[TopicPartition, PartitionState]


class CannotGenerate(Exception):
    """There is no such plan. The message has the reason and the fix."""


def drain_brokers(
    partitions: _States, drained: Collection[int], known: Collection[int], pool: BrokerPool
) -> Plan:
    """Return a plan by which brokers give up all their replicas.

    The other replicas stay, in their order. New ones follow at the end, on racks that the partition
    lacks, then on the brokers with the fewest replicas. Where a drained broker was preferred as the
    leader, that of the other replicas comes first which leads the fewest partitions. The topics of
    canaries stay: each measures its own broker, and goes with its run.

    Args:
        partitions: all partitions of the cluster.
        drained: the brokers to drain.
        known: all brokers of the cluster.
        pool: the brokers that replicas may go to.

    Raises:
        CannotGenerate: a broker is unknown, there is nothing to drain, or there are too few others.
    """
    gone = frozenset(drained)
    if unknown := sorted(gone - frozenset(known)):
        has = join_named("broker", sorted(known), most=12)
        raise CannotGenerate(f"There is no {join_named('broker', unknown)}; the cluster has {has}.")
    moved = {
        tp for tp, state in partitions.items() if gone & {*state.target} and not is_canary(tp.topic)
    }
    if not moved:
        names = join_named("broker", sorted(gone))
        raise CannotGenerate(f"No partition has a replica on {names}: there is nothing to drain.")
    topics = {tp.topic for tp in moved}
    left = msgspec.structs.replace(pool, online=pool.online - gone)
    by_factor: dict[int, dict[TopicPartition, PresentReplicas]] = {}
    for tp, state in partitions.items():
        if tp.topic in topics:
            by_factor.setdefault(len(state.target), {})[tp] = _without(state, gone)
    targets: dict[TopicPartition, Brokers] = {}
    for factor, present in by_factor.items():
        targets |= _grown(present, factor, left)
    leads = Counter(state.target[0] for state in partitions.values() if state.target)
    led = {tp: _led(targets[tp], partitions[tp], gone, leads) for tp in sorted(moved)}
    return Plan(tuple(_targets(partitions, led)))


def _led(
    target: Brokers, state: PartitionState, gone: frozenset[int], leads: Counter[int]
) -> Brokers:
    """Return target replicas with another leader, if the broker preferred so far is drained."""
    kept = [broker for broker in target if broker in state.isr]
    if state.target[0] not in gone or not kept:
        return target
    leader = min(kept, key=lambda broker: (leads[broker], target.index(broker)))
    leads[leader] += 1
    return (leader, *(broker for broker in target if broker != leader))


def change_factor(
    partitions: _States, topics: Collection[str], factor: int, pool: BrokerPool
) -> Plan:
    """Return a plan by which every partition of topics gets so many replicas.

    Raises:
        CannotGenerate: a topic is unknown, all is so already, or there are too few brokers.
    """
    known = {tp.topic for tp in partitions}
    for topic in topics:
        if topic not in known:
            near = join_all(map(shortened, closest_names(topic, known)), "or")
            hint = f"; did you mean {near}?" if near else "."
            raise CannotGenerate(f"The cluster has no topic {shortened(topic)}{hint}")
    wanted = {*topics}
    present = {
        tp: present_replicas(state) for tp, state in partitions.items() if tp.topic in wanted
    }
    targets = {
        tp: replicas
        for tp, replicas in _grown(present, factor, pool).items()
        if replicas != partitions[tp].target
    }
    if not targets:
        raise CannotGenerate(f"Every partition has {factor:,} replicas already.")
    return Plan(tuple(_targets(partitions, targets)))


def _without(state: PartitionState, gone: frozenset[int]) -> PresentReplicas:
    present = present_replicas(state)
    kept = tuple(broker for broker in present.brokers if broker not in gone)
    return PresentReplicas(kept, present.behind - gone, present.dead - gone)


def _grown(
    present: Mapping[TopicPartition, PresentReplicas], factor: int, pool: BrokerPool
) -> dict[TopicPartition, Brokers]:
    try:
        return change_replication_factor(present, factor, pool)
    except FactorProblem as problem:
        raise CannotGenerate(f"{problem}.") from None


def _targets(
    partitions: _States, targets: Mapping[TopicPartition, Brokers]
) -> Iterator[PartitionTarget]:
    for tp in sorted(targets):
        yield PartitionTarget(
            tp.topic,
            tp.partition,
            targets[tp],
            original_replicas=partitions[tp].original,
        )
