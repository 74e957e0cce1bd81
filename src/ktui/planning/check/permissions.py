"""The permissions that a run needs, held against those that its principal has. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ktui.cluster.permissions import CanaryObstacles, Grant, Permissions
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.names import join_all, join_some
from ktui.planning.objective import CANARY_PREFIX
from ktui.planning.plan import Plan

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


TO_START = NeededPermission(
    subject="this plan",
    moves=Severity.PROBLEM,
    moved="be started",
    throttles=Severity.PROBLEM,
    unthrottled="run without a throttle: --throttle none",
)
TO_CHECK = msgspec.structs.replace(TO_START, moves=Severity.WARNING)
"""As before a start. Somebody who may not start a plan may still check it."""


def topics_of(plan: Plan) -> set[str]:
    """Return the topics of a plan."""
    return {partition.topic for partition in plan.partitions}


def missing_permissions(
    permitted: Permissions | None, obstacles: CanaryObstacles | None, need: NeededPermission
) -> tuple[Finding, ...]:
    """Return the permissions that are missing; none where Kafka has to refuse the request itself.

    Args:
        permitted: what the principal may do; None where brokers do not tell.
        obstacles: what keeps a canary from its topic; None without one.
        need: what is to be done.
    """
    lacking = () if permitted is None else _lacking(permitted, need)
    canary = _against_canary(obstacles, need) if obstacles is not None and need.canary else ()
    return (*lacking, *canary)


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
        yield Finding(severity, FindingKind.THROTTLE_NOT_PERMITTED, (), sentence)
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
            sentence = _sentence(grant, topics, f"{need.subject} cannot be throttled", advice)
            yield Finding(need.throttles, FindingKind.THROTTLE_NOT_PERMITTED, (), sentence)
        elif need.moves is not None and grant.operation == "Alter":
            sentence = _sentence(grant, topics, f"{need.subject} cannot {need.moved}", advice)
            yield Finding(need.moves, FindingKind.NOT_PERMITTED, (), sentence)


def _sentence(grant: Grant, topics: tuple[str, ...], what: str, advice: str) -> str:
    where = join_some([f"topic {topic}" for topic in topics])
    if not topics:
        where = "the cluster" if grant.resource == "cluster" else "any topic"
    return (
        f"{grant.operation} on {where} is not granted to this principal, which cannot "
        f"{grant.purpose}: {what}. {advice}"
    )


def grant_command(grant: Grant) -> str:
    """Return the advice with the command that grants a permission."""
    to = "--cluster" if grant.resource == "cluster" else "--topic NAME"
    return f"Grant it with kafka-acls --add --operation {grant.operation} {to}"
