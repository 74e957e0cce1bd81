"""The sentences of a check's findings."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.partition import TopicPartition
from ktui.planning.check.findings import ClusterSnapshot, FindingKind
from ktui.planning.check.rules import PlanRules
from ktui.planning.names import closest_names, join_all, join_some
from ktui.planning.plan import PartitionTarget, Plan

_MOST_COMPARED = 20
"""The most unknown topics compared with all names, as each costs a pass over them."""

_FIXED = {
    FindingKind.TOO_MANY_REPLICAS: "{0} replicas for {names}, but the cluster has {brokers} "
    "brokers",
    FindingKind.REPLICATION_FACTOR_CHANGE: "the replication factor changes from {0} to {1}: "
    "{names}",
    FindingKind.BELOW_MIN_ISR: "fewer replicas ({0}) than min.insync.replicas ({1}), so producers "
    "with acks=all are refused: {names}",
    FindingKind.BELOW_MIN_ISR_ALREADY: "fewer replicas ({0}) than min.insync.replicas ({1}) "
    "already, so producers with acks=all are refused before and after: {names}",
    FindingKind.BROKER_DOWN: "broker {0} is down but is a target of {names}: nothing is "
    "copied to it until it is back",
    FindingKind.OFFLINE: "offline, with no leader to copy from: {names}",
    FindingKind.CANARY_TOPIC: "{0} is the topic of a run's canary, which measures the broker that "
    "leads each partition and is deleted at the run's end; leave it out of the plan: {names}",
    FindingKind.TOPIC_OUT_OF_REACH: "topic {0} is in the metadata, and a broker that was asked for "
    "its settings knows no such topic: it was deleted just now, or a proxy on the way to the "
    "brokers renames topics. Through such a proxy ktui cannot move it: connect to the brokers "
    "themselves",
    FindingKind.TIERED: "tiered: only what leaders have on disk is copied and counted, and what is "
    "in remote storage alone stays there: {names}",
    FindingKind.CORDONED_LEFT: "broker {0} is cordoned, so no list may name it: in any shape, a "
    "step that leaves it adds and removes at once: {names}",
    FindingKind.UNDER_REPLICATED: "under-replicated before the start: {names}",
}


_CORDONED = {
    True: "broker {0} is cordoned, and Kafka refuses every target that names it, whether the "
    "replica is new there or stays: {names}; lift the cordon with ktui broker uncordon {0}, or "
    "leave the broker out",
    None: "broker {0} is cordoned, and Kafka 4.4 and later refuse every target that names it, "
    "which cannot be told of this cluster: {names}; lift the cordon with ktui broker uncordon {0}",
    False: "broker {0} is cordoned and gets no new partitions, but it is to get replicas of "
    "{names}; lift the cordon with ktui broker uncordon {0}",
}
"""A fully cordoned broker that targets name, by `ClusterSnapshot.refuses_cordoned`."""
_WITH_EXAMPLE = {FindingKind.ORIGINAL_DIFFERS, FindingKind.RACKS, FindingKind.LOG_DIR_NOT_CHOSEN}


class FindingSentences:
    """Formats the findings of one plan as sentences."""

    def __init__(self, plan: Plan, rules: PlanRules, cluster: ClusterSnapshot) -> None:
        self._plan = plan
        self._rules = rules
        self._cluster = cluster
        self._compared = 0

    @property
    def plan_size(self) -> int:
        """The number of partitions in the plan."""
        return len(self._plan.partitions)

    def of(
        self,
        kind: FindingKind,
        cause: tuple[object, ...],
        partitions: list[TopicPartition],
        first: int,
    ) -> str:
        """Return a finding's sentence; `first` is the plan index of its first partition."""
        refuses = self._cluster.refuses_cordoned
        text = _CORDONED[refuses] if kind is FindingKind.CORDONED else _FIXED.get(kind)
        if text is not None:
            brokers = len(self._rules.known_brokers)
            return text.format(*cause, names=join_some(partitions), brokers=brokers)
        if kind is FindingKind.FOREIGN_REASSIGNMENT:
            who = f"run {cause[0]}" if cause else "someone else"
            return f"{who} is reassigning {join_some(partitions)}"
        if kind in {FindingKind.NOTHING_TO_DO, FindingKind.AT_TARGET}:
            return self._done(kind, len(partitions))
        if kind is FindingKind.SETTINGS_UNREADABLE:
            return self._settings(partitions)
        if kind in _WITH_EXAMPLE:
            return self._example(kind, self._plan.partitions[first], partitions)
        return self._unknown(kind, cause[0], partitions)

    def _unknown(self, kind: FindingKind, cause: object, partitions: list[TopicPartition]) -> str:
        name = str(cause)
        if kind is FindingKind.TOPIC_UNREADABLE:
            return f"topic {name} could not be read: {self._rules.unreadable[name]}"
        if kind is FindingKind.TOPIC_UNKNOWN:
            return f"the cluster has no topic {name}{self._suggestion(name)}"
        if kind is FindingKind.PARTITION_UNKNOWN:
            count = self._rules.partition_counts[name]
            have = f"{name} has {count:,} partition{'' if count == 1 else 's'}"
            return f"{have}, {_spans(range(count))}, and not {join_some(partitions)}"
        brokers = _spans(self._rules.known_brokers)
        return (
            f"the cluster has no broker {name}, only {brokers}; named for {join_some(partitions)}"
        )

    def _suggestion(self, name: str) -> str:
        self._compared += 1
        near = closest_names(name, self._cluster.topics) if self._compared <= _MOST_COMPARED else []
        return f"; did you mean {join_all(near, 'or')}?" if near else ""

    def _settings(self, partitions: list[TopicPartition]) -> str:
        topics = list(dict.fromkeys(tp.topic for tp in partitions))
        reasons = self._rules.settings_unreadable
        why = next((f": {reasons[topic]}" for topic in topics if topic in reasons), "")
        lost = "so min.insync.replicas is not checked"
        return f"the settings of {join_some(topics)} could not be read, {lost}{why}"

    def _example(
        self, kind: FindingKind, target: PartitionTarget, partitions: list[TopicPartition]
    ) -> str:
        if kind is FindingKind.ORIGINAL_DIFFERS:
            state = self._rules.state(target.tp)
            now = () if state is None else state.original
            problem = "original_replicas are not the replicas now, so the plan was made earlier"
            example = f"{join_all(target.original_replicas)} in the plan, {join_all(now)} now"
        elif kind is FindingKind.LOG_DIR_NOT_CHOSEN:
            problem = (
                "a run leaves log dirs to the brokers, which choose one for each new replica and "
                "leave present replicas where they are; `ktui reassign --execute` of the plan "
                "moves them afterwards"
            )
            dirs = self._rules.log_dirs_elsewhere(target)
            example = join_some(f"{path} on broker {broker}" for broker, path in dirs)
        else:
            problem = "replicas share a rack, though there are racks without one"
            example = f"in racks {join_all(self._rules.racks[b] for b in target.replicas)}"
        return f"{problem}: {join_some([f'{target.tp} ({example})', *partitions[1:]])}"

    def _done(self, kind: FindingKind, count: int) -> str:
        if kind is FindingKind.NOTHING_TO_DO:
            return f"nothing to do: every partition is at its target already ({count:,})"
        return f"{count:,} of {self.plan_size:,} partitions are at their target already"


def _spans(numbers: Iterable[int]) -> str:
    """Format numbers in order, with neighbours joined: "1 to 5 and 9"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][-1] == number - 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return join_some((" to ".join(map(str, span)) for span in spans), most=20)
