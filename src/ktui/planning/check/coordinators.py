"""The groups and transactional ids whose coordinator a plan moves.

A partition of an internal topic that gets another leader takes along what its leader coordinates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.coordination import CoordinatorKind, coordinating_partition
from ktui.cluster.internal_topics import INTERNAL_TOPICS, SHARE_GROUPS_TOPIC
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.check.findings import ClusterSnapshot, Finding, FindingKind, Severity
from ktui.planning.check.rules import moves_leader
from ktui.planning.names import join_all, join_some
from ktui.planning.plan import Plan
from ktui.quantities import as_count


class CoordinatorMoves(msgspec.Struct, frozen=True, kw_only=True):
    """What changes its coordinator with a plan."""

    partitions: tuple[TopicPartition, ...]
    """The partitions of internal topics that get another leader, in the plan's order."""
    groups: int | None
    """None if they could not be counted."""
    transactional_ids: int | None
    """None if they could not be counted; only those that the principal may describe."""


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
    return CoordinatorMoves(
        partitions=moving,
        groups=_count(CoordinatorKind.GROUP, moving, cluster),
        transactional_ids=_count(CoordinatorKind.TRANSACTION, moving, cluster),
    )


def _count(
    kind: CoordinatorKind, moving: tuple[TopicPartition, ...], cluster: ClusterSnapshot
) -> int | None:
    numbers = {tp.partition for tp in moving if tp.topic == kind.topic}
    if not numbers:
        return 0
    if kind not in cluster.coordinated:
        return None
    partitions = sum(tp.topic == kind.topic for tp in cluster.partitions)
    found = Counter(coordinating_partition(e, partitions) for e in cluster.coordinated[kind].ids)
    return sum(found[number] for number in numbers)


def coordinator_findings(plan: Plan, cluster: ClusterSnapshot) -> Iterator[Finding]:
    """Yield what changes its coordinator, and what could not be counted."""
    moves = coordinator_moves(plan, cluster)
    if moves is None:
        return
    counts = {
        CoordinatorKind.GROUP: moves.groups,
        CoordinatorKind.TRANSACTION: moves.transactional_ids,
    }
    if some := {kind: count for kind, count in counts.items() if count}:
        yield _finding(moves.partitions, _sentence(some, moves.partitions))
    for kind, count in counts.items():
        concerned = _of(kind.topic, moves)
        if concerned and (why := _uncounted(kind, count, cluster)):
            yield _finding(concerned, why)
    if share := _of(SHARE_GROUPS_TOPIC, moves):
        yield _finding(
            share,
            "share groups keep their state by group, topic and partition, so it is not known which "
            f"of them change their coordinator with the leaders of {join_some(share)}",
        )


def _sentence(some: Mapping[CoordinatorKind, int], partitions: Sequence[TopicPartition]) -> str:
    who = join_all(as_count(count, kind.value) for kind, count in some.items())
    change = "changes its" if sum(some.values()) == 1 else "change their"
    return (
        f"{who} {change} coordinator with the leaders of {join_some(partitions)}: commits wait "
        "meanwhile"
    )


def _of(topic: str, moves: CoordinatorMoves) -> tuple[TopicPartition, ...]:
    return tuple(tp for tp in moves.partitions if tp.topic == topic)


def _finding(partitions: tuple[TopicPartition, ...], sentence: str) -> Finding:
    return Finding(Severity.NOTE, FindingKind.COORDINATORS_MOVE, partitions, sentence)


def _uncounted(kind: CoordinatorKind, count: int | None, cluster: ClusterSnapshot) -> str:
    """Return why some could not be counted, with the fix; empty if all were."""
    if count is None:
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
