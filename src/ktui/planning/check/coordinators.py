"""The groups and transactional ids whose coordinator a plan moves.

A partition of an internal topic that gets another leader takes along what its leader coordinates.
What its clients meet until the new leader has read the partition was measured on 4.4.0: commits of
consumers, Kafka Streams and transactions wait. Members of a share group go on when only the group's
coordinator moves, and get nothing for up to 2 s when the state of their deliveries moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from ktui.cluster.coordination import (
    INTERNAL_TOPICS,
    SHARE,
    STREAMS,
    CoordinatedId,
    CoordinatorKind,
    coordinating_partition,
)
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
    """Groups of any type; None if they could not be counted."""
    transactional_ids: int | None
    """None if they could not be counted; only those that the principal may describe."""
    share_groups: int | None
    """Share groups with state in these partitions; None if they could not be counted."""


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
    """Return by name what the moving leaders coordinate; None if it could not be read."""
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
    """Return why some could not be counted, with the fix; empty if all were."""
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
