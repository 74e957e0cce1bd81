"""Compare the permissions that a run needs with those that the principal has."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ktui.cli.context.cluster import Cluster, ClusterChoice, Target, check_cluster
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.doctor.findings import grant_command
from ktui.cluster.errors import ClusterError, Unsupported
from ktui.execution.errors import RunRefused
from ktui.execution.run.run import Run
from ktui.fileproblem import FileProblem
from ktui.kafka.capabilities import Grant, Permissions
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.names import join_all, join_some
from ktui.planning.objective import CANARY_PREFIX
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import ThrottleRates

if TYPE_CHECKING:
    from ktui.kafka.canary_topic import CanaryObstacles

_OF_A_THROTTLE = ("DescribeConfigs", "AlterConfigs")
"""The operations that set a throttle, and restore the previous settings."""
_OF_A_CANARY = {"Create": "make it", "Write": "write to it", "Delete": "delete it at the end"}
"""The operations on the topic of a canary, and what each is for."""


class NeededPermission(msgspec.Struct, frozen=True, kw_only=True):
    """A planned action, with the severity of a permission that is missing for it."""

    subject: str
    """The subject of the finding: "this plan"."""
    moves: Severity | None
    """The severity if partitions cannot be moved; None if none are to be."""
    moved: str = ""
    """The action that the subject then cannot take: "be started"."""
    throttles: Severity | None
    """The severity if a throttle cannot be set; None if none is to be."""
    unthrottled: str = ""
    """How to do without the throttle."""
    canary: str = ""
    """The topic of the run's canary; empty for none."""


async def permission_findings(
    cluster: Cluster, plan: Plan, *, throttled: bool, starts: bool, canary: str = ""
) -> tuple[Finding, ...]:
    """Find the permissions that are missing to run a plan.

    Args:
        cluster: the cluster whose brokers report what the principal may do.
        plan: the plan.
        throttled: whether the run has a throttle.
        starts: whether the run starts now. Somebody who may not start a plan may still check it.
            So without `starts`, a missing permission to move partitions is only a warning.
        canary: the topic of the run's canary; empty for none.

    Raises:
        ClusterError: no broker answers.
    """
    need = NeededPermission(
        subject="this plan",
        moves=Severity.PROBLEM if starts else Severity.WARNING,
        moved="be started",
        throttles=Severity.PROBLEM if throttled else None,
        unthrottled="run without a throttle: --throttle none",
        canary=canary,
    )
    return await find_missing_permissions(need, cluster, topics_of(plan))


def topics_of(plan: Plan) -> set[str]:
    """Return the topics of a plan."""
    return {partition.topic for partition in plan.partitions}


async def find_missing_permissions(
    need: NeededPermission, cluster: Cluster, topics: Collection[str]
) -> tuple[Finding, ...]:
    """Find the permissions that are missing on a cluster, on topics and on that of a canary.

    Raises:
        ClusterError: no broker answers.
    """
    found: list[Finding] = []
    with suppress(Unsupported):  # Kafka refuses the request itself then
        found += _lacking(await cluster.permissions(topics), need)
        if need.canary:
            found += _against_canary(await cluster.canary_obstacles(need.canary), need)
    return tuple(found)


def _against_canary(obstacles: CanaryObstacles, need: NeededPermission) -> Iterator[Finding]:
    severity = need.moves or Severity.PROBLEM
    topic, unmeasured = f"topic {need.canary}", f"{need.subject} cannot be measured by --canary"
    if denied := obstacles.denied:
        are = "is" if len(denied) == 1 else "are"
        options = " ".join(f"--operation {operation}" for operation in denied)
        sentence = (
            f"{join_all(denied)} on {topic} {are} not granted to this principal, so its canary "
            f"cannot {join_all(_OF_A_CANARY[each] for each in denied)}: {unmeasured}. Grant it "
            f"with kafka-acls --add {options} --topic {CANARY_PREFIX} --resource-pattern-type "
            "prefixed"
        )
        yield Finding(severity, FindingKind.NOT_PERMITTED, (), sentence)
    elif obstacles.refusal:
        sentence = (
            f"{topic} cannot be used: {obstacles.refusal}: {unmeasured}. Allow such a topic, or "
            "start a run with --sli-command or --sli-prometheus"
        )
        yield Finding(severity, FindingKind.CANARY_REFUSED, (), sentence)


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


def check_throttle_permitted(run: Run, rates: ThrottleRates | None = None) -> None:
    """Check that a run's principal may set a throttle on the partitions still to be moved.

    The run's engine sets the throttle. So a check that fails here only prints a warning.

    Args:
        run: the run.
        rates: the new rates, whose objective the run's canary may have to measure; None for none.

    Raises:
        BadInput: a permission is missing; names it.
    """
    begun = run.started
    if begun is None or not begun.connection:  # a run on a simulated cluster
        return
    try:
        where = ClusterChoice().or_of_run(begun).target(changes=False)
        missing = asyncio.run(_missing(run, where, begun.cluster_id, rates))
    except (BadInput, FileProblem, RunRefused, ClusterError) as error:
        print_note(f"warning: ktui could not check whether this throttle is permitted: {error}")
        return
    if missing:
        sentences = "; ".join(finding.sentence for finding in missing)
        raise BadInput(f"run {run.name} is unchanged: {sentences}")


async def _missing(
    run: Run, where: Target, cluster_id: str, rates: ThrottleRates | None
) -> tuple[Finding, ...]:
    await check_cluster(where, cluster_id)
    return await find_missing_for_throttle(run, where.cluster, rates)


async def find_missing_for_throttle(
    run: Run, cluster: Cluster, rates: ThrottleRates | None
) -> tuple[Finding, ...]:
    """Find the permissions that are missing to throttle what a run still has to move.

    Args:
        run: the run.
        cluster: the cluster whose brokers report what the principal may do.
        rates: the rates, whose objective the run's canary may have to measure; None for those of a
            schedule, which have none.

    Raises:
        ClusterError: no broker answers.
    """
    need = NeededPermission(
        subject=f"run {run.name}",
        moves=None,
        throttles=Severity.PROBLEM,
        canary="" if rates is None else run.options.canary_of(run.name, rates),
    )
    topics = {tp.topic for tp, track in run.tracks.items() if not track.state.ended}
    return await find_missing_permissions(need, cluster, topics)
