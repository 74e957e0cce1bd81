"""The rules that each partition of a plan is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import msgspec

from ktui.cluster.errors import Operation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.check.findings import ClusterSnapshot, FindingKind
from ktui.planning.plan import PartitionTarget
from ktui.planning.read.problems import Steps


class Remark(msgspec.Struct, frozen=True):
    """One rule that one partition breaks.

    `cause` is what the sentence names: remarks of the same kind and cause become one finding.
    `steps` lead from the partition to the value in the file.
    """

    kind: FindingKind
    cause: tuple[object, ...] = ()
    steps: Steps = ()


class PlanRules:
    """Holds partitions against a cluster; what all of them need is worked out once."""

    def __init__(self, cluster: ClusterSnapshot) -> None:
        self._cluster = cluster

    @cached_property
    def partition_counts(self) -> Counter[str]:
        """How many partitions each topic has."""
        return Counter(tp.topic for tp in self._cluster.partitions)

    @cached_property
    def known_brokers(self) -> frozenset[int]:
        """Registered brokers: before 4.1 one that is down may show in replica lists only."""
        states = self._cluster.partitions.values()
        assigned = {broker for state in states for broker in state.replicas}
        return frozenset(self._cluster.brokers) | assigned

    @cached_property
    def unreadable(self) -> dict[str, str]:
        """Topics that could not be described, with the cluster's words."""
        return self._topics_failed(Operation.METADATA)

    @cached_property
    def settings_unreadable(self) -> dict[str, str]:
        """Topics whose settings could not be read, with the cluster's words."""
        return self._topics_failed(Operation.TOPIC_CONFIGS)

    def _topics_failed(self, operation: Operation) -> dict[str, str]:
        failed = (f for f in self._cluster.failures if f.operation is operation)
        return {failure.topic: failure.answer for failure in failed if failure.topic is not None}

    @cached_property
    def racks(self) -> dict[int, str]:
        """The rack of each broker that has one."""
        brokers = self._cluster.brokers.values()
        return {broker.id: broker.rack for broker in brokers if broker.rack is not None}

    @cached_property
    def rack_count(self) -> int:
        """How many racks there are."""
        return len(set(self.racks.values()))

    def state(self, tp: TopicPartition) -> PartitionState | None:
        """Give a partition as it is, the controller's list of reassignments included."""
        state = self._cluster.partitions.get(tp)
        listed = self._cluster.listed.get(tp)
        return state if state is None or listed is None else state.with_reassignment(listed)

    def remarks(self, target: PartitionTarget) -> Iterator[Remark]:
        """Give all that is to be said of one partition."""
        yield from self._of_brokers(target)
        state = self.state(target.tp)
        if state is None:
            yield self._unknown(target)
            return
        yield from self._of_size(target, state)
        yield from self._of_state(target, state)
        if self._broken_racks(target):
            yield Remark(FindingKind.RACKS, steps=("replicas",))
        if at_target(target, state):
            yield Remark(FindingKind.AT_TARGET)

    def _of_brokers(self, target: PartitionTarget) -> Iterator[Remark]:
        brokers = self._cluster.brokers
        for index, broker in enumerate(target.replicas):
            known = brokers.get(broker)
            if known is not None and known.alive:
                continue
            kind = (
                FindingKind.BROKER_DOWN
                if broker in self.known_brokers
                else FindingKind.BROKER_UNKNOWN
            )
            yield Remark(kind, (broker,), ("replicas", index))
        if len(target.replicas) > len(self.known_brokers):
            yield Remark(FindingKind.TOO_MANY_REPLICAS, (len(target.replicas),), ("replicas",))

    def _unknown(self, target: PartitionTarget) -> Remark:
        if target.topic in self.partition_counts:
            return Remark(FindingKind.PARTITION_UNKNOWN, (target.topic,), ("partition",))
        unreadable = target.topic in self.unreadable
        kind = FindingKind.TOPIC_UNREADABLE if unreadable else FindingKind.TOPIC_UNKNOWN
        return Remark(kind, (target.topic,), ("topic",))

    def _of_size(self, target: PartitionTarget, state: PartitionState) -> Iterator[Remark]:
        before, after = len(state.original), len(target.replicas)
        if before != after:
            yield Remark(FindingKind.REPLICATION_FACTOR_CHANGE, (before, after), ("replicas",))
        config = self._cluster.configs.get(target.topic)
        if config is None:
            yield Remark(FindingKind.SETTINGS_UNREADABLE)
        elif after < config.min_insync_replicas:
            cause = (after, config.min_insync_replicas)
            yield Remark(FindingKind.BELOW_MIN_ISR, cause, ("replicas",))

    def _of_state(self, target: PartitionTarget, state: PartitionState) -> Iterator[Remark]:
        if state.reassigning:
            yield Remark(FindingKind.FOREIGN_REASSIGNMENT)
        if target.original_replicas and not _same(target.original_replicas, state):
            yield Remark(FindingKind.ORIGINAL_DIFFERS, steps=("original_replicas",))
        if not state.described:
            return
        if state.leader is None:
            yield Remark(FindingKind.OFFLINE)
        elif state.out_of_sync:
            yield Remark(FindingKind.UNDER_REPLICATED)

    def _broken_racks(self, target: PartitionTarget) -> bool:
        """Whether fewer racks are used than there are for as many replicas (KIP-36)."""
        used = {self.racks.get(broker) for broker in target.replicas}
        return None not in used and len(used) < min(len(target.replicas), self.rack_count)


def at_target(target: PartitionTarget, state: PartitionState) -> bool:
    """Whether nothing is left to do: the replicas in the plan's order, led by the first."""
    led = not state.described or state.leader == target.replicas[0]
    return led and not state.reassigning and state.replicas == target.replicas


def _same(original: tuple[int, ...], state: PartitionState) -> bool:
    """Whether these are the replicas; Kafka forgets their order while it moves them."""
    if state.reassigning:
        return sorted(original) == sorted(state.original)
    return original == state.replicas
