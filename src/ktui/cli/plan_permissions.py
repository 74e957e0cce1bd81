"""The permissions that a run needs, held against those that the principal has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from ktui.cli.cluster import Cluster
from ktui.cli.doctor_abilities import grant_command
from ktui.cluster.errors import Unsupported
from ktui.kafka.capabilities import Grant, Permissions
from ktui.planning.finding import Finding, Kind, Severity
from ktui.planning.names import among
from ktui.planning.plan import Plan

_OF_A_THROTTLE = ("DescribeConfigs", "AlterConfigs")
"""What sets a throttle, and puts back what was there before."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, and how bad it is that a permission for it is missing."""

    subject: str
    """What it is about: "this plan"."""
    moves: Severity | None
    """For partitions to be moved; None where none are."""
    moved: str = ""
    """What cannot become of the subject then: "be started"."""
    throttles: Severity | None
    """For a throttle to be set; None where none is."""
    unthrottled: str = ""
    """How to do without the throttle."""


async def permission_findings(
    cluster: Cluster, plan: Plan, *, throttled: bool, starts: bool
) -> tuple[Finding, ...]:
    """Find the permissions that are missing to carry a plan out.

    Args:
        cluster: whose brokers are asked what the principal may do.
        plan: what is to be carried out.
        throttled: whether it is to be with a throttle.
        starts: whether it is to be now; a plan may be checked by one who may not start it.

    Raises:
        ClusterError: no broker answers.
    """
    need = Need(
        subject="this plan",
        moves=Severity.PROBLEM if starts else Severity.WARNING,
        moved="be started",
        throttles=Severity.PROBLEM if throttled else None,
        unthrottled="do without the throttle: --throttle none",
    )
    return await missing_for(need, cluster, topics_of(plan))


def topics_of(plan: Plan) -> set[str]:
    """Return the topics of a plan."""
    return {target.topic for target in plan.partitions}


async def missing_for(need: Need, cluster: Cluster, topics: Collection[str]) -> tuple[Finding, ...]:
    """Find the permissions that are missing on a cluster and on topics.

    Raises:
        ClusterError: no broker answers.
    """
    try:
        permitted = await cluster.permissions(topics)
    except Unsupported:
        return ()  # Kafka says no when it comes to it
    return tuple(_lacking(permitted, need))


def _lacking(permitted: Permissions, need: Need) -> Iterator[Finding]:
    for grant, topics in permitted.missing().items():
        advice = grant_command(grant)
        if need.throttles is not None and grant.operation in _OF_A_THROTTLE:
            advice = f"{advice}, or {need.unthrottled}" if need.unthrottled else advice
            what = f"{need.subject} cannot be throttled"
            yield _finding(need.throttles, grant, topics, what, advice)
        elif need.moves is not None and grant.operation == "Alter":
            what = f"{need.subject} cannot {need.moved}"
            yield _finding(need.moves, grant, topics, what, advice)


def _finding(
    severity: Severity, grant: Grant, topics: tuple[str, ...], what: str, advice: str
) -> Finding:
    where = among([f"topic {topic}" for topic in topics])
    if not topics:
        where = "the cluster" if grant.resource == "cluster" else "any topic"
    sentence = (
        f"{grant.operation} on {where} is not granted to this principal, which cannot "
        f"{grant.purpose}: {what}. {advice}"
    )
    return Finding(severity, Kind.NOT_PERMITTED, (), sentence)
