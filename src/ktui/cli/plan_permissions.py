"""The permissions that a run of a plan needs, held against those that the principal has."""

from __future__ import annotations

from collections.abc import Iterator

from ktui.cli.cluster import Cluster
from ktui.cli.doctor_abilities import grant_command
from ktui.cluster.errors import Unsupported
from ktui.kafka.capabilities import Grant, Permissions
from ktui.planning.finding import Finding, Kind, Severity
from ktui.planning.names import among
from ktui.planning.plan import Plan

_OF_A_THROTTLE = ("DescribeConfigs", "AlterConfigs")
"""What sets a throttle, and puts back what was there before."""


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
    try:
        permitted = await cluster.permissions({target.topic for target in plan.partitions})
    except Unsupported:
        return ()  # Kafka says no when it comes to it
    return tuple(_lacking(permitted, throttled=throttled, starts=starts))


def _lacking(permitted: Permissions, *, throttled: bool, starts: bool) -> Iterator[Finding]:
    for grant, topics in permitted.missing().items():
        if throttled and grant.operation in _OF_A_THROTTLE:
            advice = f"{grant_command(grant)}, or do without the throttle: --throttle none"
            yield _finding(Severity.PROBLEM, grant, topics, "be throttled", advice)
        elif grant.operation == "Alter":
            severity = Severity.PROBLEM if starts else Severity.WARNING
            yield _finding(severity, grant, topics, "be started", grant_command(grant))


def _finding(
    severity: Severity, grant: Grant, topics: tuple[str, ...], what: str, advice: str
) -> Finding:
    where = among([f"topic {topic}" for topic in topics])
    if not topics:
        where = "the cluster" if grant.resource == "cluster" else "any topic"
    sentence = (
        f"{grant.operation} on {where} is not granted to this principal, which cannot "
        f"{grant.purpose}: this plan cannot {what}. {advice}"
    )
    return Finding(severity, Kind.NOT_PERMITTED, (), sentence)
