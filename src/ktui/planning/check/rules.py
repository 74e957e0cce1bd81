"""The rules against which each partition of a plan is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import msgspec

from ktui.cluster.broker import cordoned_brokers, racks_of
from ktui.cluster.errors import Operation
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.planning.check.findings import ClusterSnapshot, FindingKind
from ktui.planning.json_cursor import ValuePath
from ktui.planning.plan import PartitionTarget, join_all, join_some
from ktui.planning.throttle_rates import is_canary
from ktui.quantities import as_count


class Remark(msgspec.Struct, frozen=True):
    """A rule that one partition breaks; `steps` lead from it to the value in the file."""

    kind: FindingKind
    cause: tuple[object, ...] = ()
    steps: ValuePath = ()


class PlanRules:
    """Checks partitions against a cluster; data shared by all checks is computed once."""

    def __init__(self, cluster: ClusterSnapshot) -> None:
        self.cluster = cluster

    @cached_property
    def partition_counts(self) -> Counter[str]:
        return Counter(tp.topic for tp in self.cluster.partitions)

    @cached_property
    def known_brokers(self) -> frozenset[int]:
        """Known brokers. Before Kafka 4.1, one that is down may appear in replica lists only."""
        states = self.cluster.partitions.values()
        assigned = {broker for state in states for broker in state.replicas}
        return (frozenset(self.cluster.brokers) | assigned) - self.cluster.unregistered

    @cached_property
    def cordoned(self) -> frozenset[int]:
        return cordoned_brokers(self.cluster.log_dirs)

    @cached_property
    def unreadable(self) -> dict[str, str]:
        """Topics that could not be described, with the cluster's words."""
        return self._topics_failed(Operation.METADATA)

    @cached_property
    def settings_unreadable(self) -> dict[str, str]:
        return self._topics_failed(Operation.TOPIC_CONFIGS)

    def _topics_failed(self, operation: Operation) -> dict[str, str]:
        failed = (f for f in self.cluster.failures if f.operation is operation)
        return {failure.topic: failure.answer for failure in failed if failure.topic is not None}

    @cached_property
    def racks(self) -> dict[int, str]:
        return racks_of(self.cluster.brokers.values())

    @cached_property
    def rack_count(self) -> int:
        return len(set(self.racks.values()))

    def state(self, tp: TopicPartition) -> PartitionState | None:
        """Return a partition's state, with the controller's list of reassignments overlaid."""
        state = self.cluster.partitions.get(tp)
        listed = self.cluster.listed.get(tp)
        return state if state is None or listed is None else state.with_reassignment(listed)

    def remarks(self, target: PartitionTarget) -> Iterator[Remark]:
        yield from self._of_brokers(target)
        state = self.state(target.tp)
        if state is None:
            yield self._unknown(target)
            return
        yield from self._of_cordons(target, state)
        yield from self._of_size(target, state)
        yield from self._of_state(target, state)
        if target.log_dirs and self.log_dirs_elsewhere(target):
            yield Remark(FindingKind.LOG_DIR_NOT_CHOSEN, steps=("log_dirs",))
        if is_canary(target.topic):
            yield Remark(FindingKind.CANARY_TOPIC, (target.topic,), ("topic",))
        if self._broken_racks(target):
            yield Remark(FindingKind.RACKS, steps=("replicas",))
        if at_target(target, state):
            yield Remark(FindingKind.AT_TARGET)

    def _of_brokers(self, target: PartitionTarget) -> Iterator[Remark]:
        brokers = self.cluster.brokers
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

    def _of_cordons(self, target: PartitionTarget, state: PartitionState) -> Iterator[Remark]:
        """Remark on cordoned brokers in a target; on kept replicas only where Kafka may refuse."""
        held = set(state.replicas)
        if self.cluster.refuses_cordoned is not False and not has_its_list(target, state):
            held = set()
        for index, broker in enumerate(target.replicas):
            if broker in self.cordoned and broker not in held:
                yield Remark(FindingKind.CORDONED, (broker,), ("replicas", index))
        if self.cluster.refuses_cordoned:
            for broker in sorted(self.cordoned & {*state.original} - {*target.replicas}):
                yield Remark(FindingKind.CORDONED_LEFT, (broker,), ("replicas",))

    def _unknown(self, target: PartitionTarget) -> Remark:
        topic = target.topic
        if count := self.partition_counts[topic]:
            numbers = "0" if count == 1 else f"0 to {count - 1}"
            cause = (topic, as_count(count, "partition"), numbers)
            return Remark(FindingKind.PARTITION_UNKNOWN, cause, ("partition",))
        if topic in self.unreadable:
            return Remark(FindingKind.TOPIC_UNREADABLE, (topic, self.unreadable[topic]), ("topic",))
        return Remark(FindingKind.TOPIC_UNKNOWN, (topic,), ("topic",))

    def _of_size(self, target: PartitionTarget, state: PartitionState) -> Iterator[Remark]:
        before, after = len(state.original), len(target.replicas)
        if before != after:
            yield Remark(FindingKind.REPLICATION_FACTOR_CHANGE, (before, after), ("replicas",))
        config = self.cluster.configs.get(target.topic)
        if target.topic in self.cluster.denied_by_brokers:
            yield Remark(FindingKind.TOPIC_OUT_OF_REACH, (target.topic,), ("topic",))
            return
        if config is None:
            yield Remark(FindingKind.SETTINGS_UNREADABLE)
            return
        if after < config.min_insync_replicas:
            already = before <= after  # a plan is refused only for what it makes worse
            kind = FindingKind.BELOW_MIN_ISR_ALREADY if already else FindingKind.BELOW_MIN_ISR
            yield Remark(kind, (after, config.min_insync_replicas), ("replicas",))
        if config.tiered and not {*target.replicas} <= {*state.original}:
            yield Remark(FindingKind.TIERED)

    def _of_state(self, target: PartitionTarget, state: PartitionState) -> Iterator[Remark]:
        if state.reassigning:
            mover = self.cluster.movers.get(target.tp)
            who = "someone else" if mover is None else f"run {mover}"
            yield Remark(FindingKind.FOREIGN_REASSIGNMENT, (who,))
        if target.original_replicas and not _is_original(target.original_replicas, state):
            yield Remark(FindingKind.ORIGINAL_DIFFERS, steps=("original_replicas",))
        if not state.described:
            return
        if state.leader is None:
            yield Remark(FindingKind.OFFLINE)
        elif state.out_of_sync:
            yield Remark(FindingKind.UNDER_REPLICATED)

    def _is_elsewhere(self, tp: TopicPartition, broker: int, path: str) -> bool:
        """Whether a new replica may end up in another log dir than the plan's."""
        is_held = self.cluster.held_in.get(Replica(tp, broker)) == path
        return not is_held and len(self.cluster.log_dirs.get(broker, ())) != 1

    def log_dirs_elsewhere(self, target: PartitionTarget) -> list[tuple[int, str]]:
        return [named for named in target.named_log_dirs if self._is_elsewhere(target.tp, *named)]

    def example(self, kind: FindingKind, target: PartitionTarget) -> str:
        """Return how a target breaks a rule, for the kinds that name an example; else nothing."""
        if kind is FindingKind.ORIGINAL_DIFFERS:
            state = self.state(target.tp)
            now = () if state is None else state.original
            return f"{join_all(target.original_replicas)} in the plan, {join_all(now)} now"
        if kind is FindingKind.LOG_DIR_NOT_CHOSEN:
            dirs = self.log_dirs_elsewhere(target)
            return join_some(f"{path} on broker {broker}" for broker, path in dirs)
        if kind is FindingKind.RACKS:
            return f"in racks {join_all(self.racks[broker] for broker in target.replicas)}"
        return ""

    def _broken_racks(self, target: PartitionTarget) -> bool:
        used = {self.racks.get(broker) for broker in target.replicas}
        return None not in used and len(used) < min(len(target.replicas), self.rack_count)


def at_target(target: PartitionTarget, state: PartitionState) -> bool:
    """Whether nothing is left to do: the replicas are in the plan's order, led by the first."""
    led = not state.described or state.leader == target.replicas[0]
    return led and has_its_list(target, state)


def has_its_list(target: PartitionTarget, state: PartitionState) -> bool:
    """Whether a partition has the plan's replicas in their order, so that no list is sent."""
    return not state.reassigning and state.replicas == target.replicas


def moves_leader(target: PartitionTarget, state: PartitionState) -> bool:
    """Whether a partition that has a leader is to be led by another broker."""
    return state.leader is not None and state.leader != target.replicas[0]


def _is_original(original: tuple[int, ...], state: PartitionState) -> bool:
    """Whether these are the original replicas; Kafka forgets their order during a move."""
    if state.reassigning:
        return sorted(original) == sorted(state.original)
    return original == state.replicas
