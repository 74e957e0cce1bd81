"""Check a plan: read what it rests on, and gather the findings."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ktui.cluster.coordination import INTERNAL_TOPICS
from ktui.cluster.partition import TopicPartition
from ktui.planning.check.coordinators import coordinator_findings
from ktui.planning.check.findings import (
    Allowances,
    ClusterSnapshot,
    Finding,
    FindingKind,
    Option,
    Severity,
)
from ktui.planning.check.messages import FindingSentences
from ktui.planning.check.rules import PlanRules, Remark
from ktui.planning.names import join_all
from ktui.planning.plan import Plan
from ktui.planning.read.json_cursor import find_positions
from ktui.planning.read.problems import FilePosition, ValuePath
from ktui.quantities import as_count


def leave_out_internal(plan: Plan) -> tuple[Plan, tuple[Finding, ...]]:
    """Return a plan without internal topics, and the finding that names what is left out.

    A plan without such topics is returned as it is. With nothing left, the finding says so.
    """
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
    """The partitions with the same remark, and the plan index of the first one."""

    remark: Remark
    first: int
    partitions: list[TopicPartition]

    @property
    def steps(self) -> ValuePath:
        """The path to the value behind the first partition's remark."""
        return ("partitions", self.first, *self.remark.steps)


def check_plan(
    plan: Plan, cluster: ClusterSnapshot, allowed: Allowances | None = None
) -> tuple[Finding, ...]:
    """Return the findings about a plan on this cluster: problems, then warnings, then notes.

    A remark that many partitions share is one finding that names them all. A plan may be started
    if no finding is a problem.
    """
    rules = PlanRules(cluster)
    groups = _grouped(plan, rules)
    found = find_positions(plan.text, [group.steps for group in groups]) if plan.text else {}
    sentences = FindingSentences(plan, rules, cluster)
    allowed = allowed or Allowances()
    refused = frozenset({FindingKind.CORDONED} if cluster.refuses_cordoned else ())
    problems = _PROBLEMS | refused
    findings = [
        _finding(group, found.get(group.steps), sentences, allowed, problems) for group in groups
    ]
    findings += coordinator_findings(plan, cluster)
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.severity)))


def _grouped(plan: Plan, rules: PlanRules) -> Iterable[_Group]:
    groups: dict[tuple[FindingKind, tuple[object, ...]], _Group] = {}
    for index, target in enumerate(plan.partitions):
        for remark in rules.remarks(target):
            key = (remark.kind, remark.cause)
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group(remark, index, [])
            group.partitions.append(target.tp)
    return groups.values()


def _finding(
    group: _Group,
    place: FilePosition | None,
    sentences: FindingSentences,
    allowed: Allowances,
    problems: frozenset[FindingKind],
) -> Finding:
    kind = group.remark.kind
    if kind is FindingKind.AT_TARGET and len(group.partitions) == sentences.plan_size:
        kind = FindingKind.NOTHING_TO_DO
    return Finding(
        severity=_severity(kind, allowed, problems),
        kind=kind,
        partitions=tuple(group.partitions),
        sentence=sentences.of(kind, group.remark.cause, group.partitions, group.first),
        place=place,
        option=_ALLOWABLE.get(kind),
    )


def _severity(kind: FindingKind, allowed: Allowances, problems: frozenset[FindingKind]) -> Severity:
    if kind in problems:
        return Severity.PROBLEM
    if kind is FindingKind.REPLICATION_FACTOR_CHANGE:
        return Severity.NOTE if allowed.replication_factor_change else Severity.PROBLEM
    if kind is FindingKind.BELOW_MIN_ISR:
        return Severity.WARNING if allowed.below_min_isr else Severity.PROBLEM
    return Severity.NOTE if kind in _NOTES else Severity.WARNING
