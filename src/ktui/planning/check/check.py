"""The check of a plan on its cluster: findings, each with its sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from ktui.cluster.broker import (
    INTERNAL_TOPICS,
    SHARE,
    STREAMS,
    CoordinatedId,
    CoordinatorKind,
    coordinating_partition,
)
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.check.findings import (
    Allowances,
    ClusterSnapshot,
    Finding,
    FindingKind,
    Option,
    Severity,
)
from ktui.planning.check.rules import PlanRules, Remark, moves_leader
from ktui.planning.json_cursor import ValuePath, find_positions
from ktui.planning.plan import Plan, closest_names, join_all, join_some
from ktui.quantities import as_count

_MOST_COMPARED = 20
"""The most unknown topics compared with all names, as each costs a pass over them."""

_SENTENCES = {
    FindingKind.TOPIC_UNKNOWN: "the cluster has no topic {0}{hint}",
    FindingKind.TOPIC_UNREADABLE: "topic {0} could not be read: {1}",
    FindingKind.PARTITION_UNKNOWN: "{0} has {1}, {2}, and not {names}",
    FindingKind.BROKER_UNKNOWN: "the cluster has no broker {0}, only {known}; named for {names}",
    FindingKind.FOREIGN_REASSIGNMENT: "{0} is reassigning {names}",
    FindingKind.NOTHING_TO_DO: "nothing to do: every partition is at its target already "
    "({count:,})",
    FindingKind.AT_TARGET: "{count:,} of {size:,} partitions are at their target already",
    FindingKind.SETTINGS_UNREADABLE: "the settings of {topics} could not be read, so "
    "min.insync.replicas is not checked{why}",
    FindingKind.ORIGINAL_DIFFERS: "original_replicas are not the replicas now, so the plan was "
    "made earlier: {names}",
    FindingKind.LOG_DIR_NOT_CHOSEN: "a run leaves log dirs to the brokers, which choose one for "
    "each new replica and leave present replicas where they are; `ktui reassign --execute` of the "
    "plan moves them afterwards: {names}",
    FindingKind.RACKS: "replicas share a rack, though there are racks without one: {names}",
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
    None: "broker {0} is cordoned, and Kafka 4.4 and later refuse every target that names it; "
    "ktui cannot tell whether this cluster does: {names}; lift the cordon with ktui broker "
    "uncordon {0}",
    False: "broker {0} is cordoned and gets no new partitions, but the plan adds replicas of "
    "{names} to it; lift the cordon with ktui broker uncordon {0}",
}
"""A fully cordoned broker that targets name, by `ClusterSnapshot.refuses_cordoned`."""


class CoordinatorMoves(msgspec.Struct, frozen=True, kw_only=True):
    """What changes its coordinator with a plan."""

    partitions: tuple[TopicPartition, ...]
    groups: int | None  # groups of any type; None if they could not be counted
    transactional_ids: int | None  # those that the principal may describe; None if not counted
    share_groups: int | None  # share groups with state there; None if not counted


def internal_leader_moves(
    plan: Plan, known: Mapping[TopicPartition, PartitionState]
) -> tuple[TopicPartition, ...]:
    """Return the partitions of internal topics that get another leader, in the plan's order."""
    return tuple(
        target.tp
        for target in plan.partitions
        if target.topic in INTERNAL_TOPICS
        and target.tp in known
        and moves_leader(target, known[target.tp])
    )


def coordinator_moves(plan: Plan, cluster: ClusterSnapshot) -> CoordinatorMoves | None:
    """Count what changes its coordinator; None if no internal topic gets another leader."""
    moving = internal_leader_moves(plan, cluster.partitions)
    if not moving:
        return None
    found = {kind: _moving_ids(kind, moving, cluster) for kind in CoordinatorKind}
    count = {kind: None if ids is None else len(ids) for kind, ids in found.items()}
    return CoordinatorMoves(
        partitions=moving,
        groups=count[CoordinatorKind.GROUP],
        transactional_ids=count[CoordinatorKind.TRANSACTION],
        share_groups=count[CoordinatorKind.SHARE_GROUP],
    )


def _moving_ids(
    kind: CoordinatorKind, moving: tuple[TopicPartition, ...], cluster: ClusterSnapshot
) -> Mapping[str, CoordinatedId] | None:
    numbers = {tp.partition for tp in moving if tp.topic == kind.topic}
    if not numbers:
        return {}
    if kind not in cluster.coordinated:
        return None
    partitions = sum(tp.topic == kind.topic for tp in cluster.partitions)
    return {
        each.name: each
        for each in cluster.coordinated[kind].ids
        if coordinating_partition(each, partitions) in numbers
    }


def coordinator_findings(plan: Plan, cluster: ClusterSnapshot) -> Iterator[Finding]:
    """Yield what clients meet whose coordinator moves, and what could not be counted."""
    moving = internal_leader_moves(plan, cluster.partitions)
    if not moving:
        return
    found = {kind: _moving_ids(kind, moving, cluster) for kind in CoordinatorKind}
    types = Counter(each.type for each in (found[CoordinatorKind.GROUP] or {}).values())
    sharing, streaming = types[SHARE], types[STREAMS]
    committing = {
        "group": types.total() - sharing - streaming,
        "streams group": streaming,
        "transactional id": len(found[CoordinatorKind.TRANSACTION] or ()),
    }
    storing = len(found[CoordinatorKind.SHARE_GROUP] or ())
    of_groups, of_transactions, of_state = (_of(kind, moving) for kind in CoordinatorKind)
    yield from _change(committing, (*of_groups, *of_transactions), "commits wait meanwhile")
    joining = "members that join or leave wait meanwhile, the others go on"
    yield from _change({"share group": sharing}, of_groups, joining)
    if storing:
        keep = "keeps" if storing == 1 else "keep"
        yield _finding(
            of_state,
            f"{as_count(storing, 'share group')} {keep} state in {join_some(of_state)}: deliveries "
            "and acknowledgements wait while leaders move",
        )
    for kind, ids in found.items():
        concerned = _of(kind, moving)
        if concerned and (why := _uncounted(kind, cluster, read=ids is not None)):
            yield _finding(concerned, why)


def _change(
    counts: Mapping[str, int], partitions: tuple[TopicPartition, ...], meanwhile: str
) -> Iterator[Finding]:
    some = [as_count(count, what) for what, count in counts.items() if count]
    if some:
        change = "changes its" if sum(counts.values()) == 1 else "change their"
        leaders = f"coordinator with the leaders of {join_some(partitions)}"
        yield _finding(partitions, f"{join_all(some)} {change} {leaders}: {meanwhile}")


def _of(kind: CoordinatorKind, moving: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    return tuple(tp for tp in moving if tp.topic == kind.topic)


def _finding(partitions: tuple[TopicPartition, ...], sentence: str) -> Finding:
    return Finding(Severity.NOTE, FindingKind.COORDINATORS_MOVE, partitions, sentence)


def _uncounted(kind: CoordinatorKind, cluster: ClusterSnapshot, *, read: bool) -> str:
    if not read:
        reasons = (each.answer for each in cluster.failures if each.operation is kind.operation)
        why = next(reasons, "no leader answered")
        return f"the {kind.value}s that change their coordinator could not be counted: {why}"
    if lacks := cluster.coordinated[kind].lacks:
        return (
            f"{lacks} is not granted to this principal, so the {kind.value}s that it may not "
            "describe are not counted. Grant it with kafka-acls --add --operation Describe "
            "--transactional-id '*'"
        )
    return ""


def leave_out_internal(plan: Plan) -> tuple[Plan, tuple[Finding, ...]]:
    """Return a plan without internal topics, and a finding that names them, or nothing left."""
    left_out = tuple(each.tp for each in plan.partitions if each.topic in INTERNAL_TOPICS)
    if not left_out:
        return plan, ()
    kept = tuple(each for each in plan.partitions if each.topic not in INTERNAL_TOPICS)
    topics = join_all(sorted({tp.topic for tp in left_out}))
    count = as_count(len(left_out), "partition")
    nothing = "" if kept else ". Nothing else is in the plan"
    finding = Finding(
        severity=Severity.NOTE if kept else Severity.WARNING,
        kind=FindingKind.INTERNAL_LEFT_OUT if kept else FindingKind.NOTHING_TO_DO,
        partitions=left_out,
        sentence=f"left out, as --internal exclude asks: {topics}, with {count}{nothing}",
    )
    return Plan(kept), (finding,)


_PROBLEMS = frozenset(
    {
        FindingKind.TOPIC_UNKNOWN,
        FindingKind.TOPIC_UNREADABLE,
        FindingKind.TOPIC_OUT_OF_REACH,
        FindingKind.PARTITION_UNKNOWN,
        FindingKind.BROKER_UNKNOWN,
        FindingKind.TOO_MANY_REPLICAS,
    }
)
_NOTES = frozenset({FindingKind.AT_TARGET, FindingKind.TIERED, FindingKind.CORDONED_LEFT})
_ALLOWABLE = {
    FindingKind.REPLICATION_FACTOR_CHANGE: Option.REPLICATION_FACTOR_CHANGE,
    FindingKind.BELOW_MIN_ISR: Option.BELOW_MIN_ISR,
}
_ORDER = (*Severity,)


class _Group(msgspec.Struct):
    remark: Remark
    first: int
    partitions: list[TopicPartition]

    @property
    def steps(self) -> ValuePath:
        return ("partitions", self.first, *self.remark.steps)


def check_plan(
    plan: Plan, cluster: ClusterSnapshot, allowed: Allowances | None = None
) -> tuple[Finding, ...]:
    """Return problems, then warnings, then notes; a remark of many partitions is one finding."""
    rules = PlanRules(cluster)
    groups = _grouped(plan, rules)
    found = find_positions(plan.text, [group.steps for group in groups]) if plan.text else {}
    hints = dict(_hints(groups, cluster.topics))
    allowed = allowed or Allowances()
    refused = frozenset({FindingKind.CORDONED} if cluster.refuses_cordoned else ())
    findings: list[Finding] = []
    for group in groups:
        kind = group.remark.kind
        if kind is FindingKind.AT_TARGET and len(group.partitions) == len(plan.partitions):
            kind = FindingKind.NOTHING_TO_DO
        findings.append(
            Finding(
                severity=_severity(kind, allowed, _PROBLEMS | refused),
                kind=kind,
                partitions=tuple(group.partitions),
                sentence=_sentence(kind, group, plan, rules, hints),
                place=found.get(group.steps),
                option=_ALLOWABLE.get(kind),
            )
        )
    findings += coordinator_findings(plan, cluster)
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.severity)))


def _grouped(plan: Plan, rules: PlanRules) -> Collection[_Group]:
    groups: dict[tuple[FindingKind, tuple[object, ...]], _Group] = {}
    for index, target in enumerate(plan.partitions):
        for remark in rules.remarks(target):
            key = (remark.kind, remark.cause)
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group(remark, index, [])
            group.partitions.append(target.tp)
    return groups.values()


def _sentence(
    kind: FindingKind, group: _Group, plan: Plan, rules: PlanRules, hints: Mapping[object, str]
) -> str:
    tps, cause = group.partitions, group.remark.cause
    text = _SENTENCES.get(kind) or _CORDONED[rules.cluster.refuses_cordoned]
    example = rules.example(kind, plan.partitions[group.first])
    named = [f"{tps[0]} ({example})", *tps[1:]] if example else tps
    topics = list(dict.fromkeys(tp.topic for tp in tps))
    unreadable = rules.settings_unreadable
    return text.format(
        *cause,
        names=join_some(named),
        topics=join_some(topics),
        brokers=len(rules.known_brokers),
        known=_spans(rules.known_brokers),
        count=len(tps),
        size=len(plan.partitions),
        hint=hints.get(cause[0], "") if cause else "",
        why=next((f": {unreadable[topic]}" for topic in topics if topic in unreadable), ""),
    )


def _hints(groups: Iterable[_Group], topics: Collection[str]) -> Iterator[tuple[object, str]]:
    unknown = (g.remark.cause[0] for g in groups if g.remark.kind is FindingKind.TOPIC_UNKNOWN)
    for topic in islice(unknown, _MOST_COMPARED):
        near = closest_names(str(topic), topics)
        yield topic, f"; did you mean {join_all(near, 'or')}?" if near else ""


def _spans(numbers: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][-1] == number - 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    return join_some((" to ".join(map(str, span)) for span in spans), most=20)


def _severity(kind: FindingKind, allowed: Allowances, problems: frozenset[FindingKind]) -> Severity:
    if kind in problems:
        return Severity.PROBLEM
    if kind is FindingKind.REPLICATION_FACTOR_CHANGE:
        return Severity.NOTE if allowed.replication_factor_change else Severity.PROBLEM
    if kind is FindingKind.BELOW_MIN_ISR:
        return Severity.WARNING if allowed.below_min_isr else Severity.PROBLEM
    return Severity.NOTE if kind in _NOTES else Severity.WARNING
