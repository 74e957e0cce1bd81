"""The permissions that a run needs, held against those that the principal has."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator

import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BadInput
from ktui.cli.context.target import Target, check_cluster, run_names, target
from ktui.cli.context.terminal import say
from ktui.cli.doctor.abilities import grant_command
from ktui.cluster.errors import ClusterError, Unsupported
from ktui.execution.errors import RunRefused
from ktui.execution.run.run import Run
from ktui.fileproblem import FileProblem
from ktui.kafka.capabilities import Grant, Permissions
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.names import join_some
from ktui.planning.plan import Plan

_OF_A_THROTTLE = ("DescribeConfigs", "AlterConfigs")
"""What sets a throttle, and puts back what was there before."""


class NeededPermission(msgspec.Struct, frozen=True, kw_only=True):
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
    need = NeededPermission(
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


async def missing_for(
    need: NeededPermission, cluster: Cluster, topics: Collection[str]
) -> tuple[Finding, ...]:
    """Find the permissions that are missing on a cluster and on topics.

    Raises:
        ClusterError: no broker answers.
    """
    try:
        permitted = await cluster.permissions(topics)
    except Unsupported:
        return ()  # Kafka says no when it comes to it
    return tuple(_lacking(permitted, need))


def _lacking(permitted: Permissions, need: NeededPermission) -> Iterator[Finding]:
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
    where = join_some([f"topic {topic}" for topic in topics])
    if not topics:
        where = "the cluster" if grant.resource == "cluster" else "any topic"
    sentence = (
        f"{grant.operation} on {where} is not granted to this principal, which cannot "
        f"{grant.purpose}: {what}. {advice}"
    )
    return Finding(severity, FindingKind.NOT_PERMITTED, (), sentence)


def check_permitted(run: Run) -> None:
    """See that the principal of a run may set a throttle on what the run moves still.

    The run's process sets it, so a look that fails here forbids nothing: it is warned of.

    Raises:
        BadInput: a permission is missing; names it.
    """
    begun = run.started
    if begun is None or not begun.connection:  # a run on a simulated cluster
        return
    try:
        where = target(*run_names((None, None, None), begun), changes=False)
        missing = asyncio.run(_missing(run, where, begun.cluster_id))
    except (BadInput, FileProblem, RunRefused, ClusterError) as error:
        say(f"warning: whether this throttle is permitted was not seen from here: {error}")
        return
    if missing:
        sentences = "; ".join(finding.sentence for finding in missing)
        raise BadInput(f"nothing was asked of run {run.name}: {sentences}")


async def _missing(run: Run, where: Target, cluster_id: str) -> tuple[Finding, ...]:
    await check_cluster(where, cluster_id)
    need = NeededPermission(subject=f"run {run.name}", moves=None, throttles=Severity.PROBLEM)
    topics = {tp.topic for tp, track in run.tracks.items() if not track.state.ended}
    return await missing_for(need, where.cluster, topics)
