"""The first events of a run: what is to be done, and how everything was before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from ktui import __version__
from ktui.cluster.partition import PartitionState
from ktui.execution.run.events import AnyRunEvent, Planned, PlannedPart, Started
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json

T = TypeVar("T")

AT_ONCE = 1_000
"""Partitions in one event: of a size that is written and read well."""


def first_events(
    plan: Plan,
    cluster: ClusterSnapshot,
    limits: Limits,
    options: RunOptions,
    *,
    cluster_id: str,
    plan_name: str,
    connection: Mapping[str, str] | None = None,
) -> list[AnyRunEvent]:
    """Give the events that a run's journal begins with.

    The plan was checked against the cluster and has no problem: every partition of it is there.
    """
    planned = planned_by(plan, cluster)
    started = Started(
        cluster_id=cluster_id,
        plan=plan_name,
        plan_sha256=sha256_of(plan),
        partitions=len(planned),
        limits=limits,
        options=options,
        connection=dict(connection or {}),
        version=__version__,
    )
    return [started, *planned_parts(planned)]


def planned_by(plan: Plan, cluster: ClusterSnapshot) -> list[Planned]:
    """Give the partitions of a plan as the cluster has them, in the plan's order.

    Those that the cluster does not have are left out.
    """
    rules = PlanRules(cluster)
    states = ((target, rules.state(target.tp)) for target in plan.partitions)
    return [_planned(target, state, cluster) for target, state in states if state is not None]


def sha256_of(plan: Plan) -> str:
    """Give the hash of a plan's file."""
    return hashlib.sha256(plan.text or plan_as_json(plan).encode()).hexdigest()


def planned_parts(partitions: Sequence[Planned], most: int = AT_ONCE) -> list[PlannedPart]:
    """Give a run's partitions in events of a size that is written and read well."""
    return [PlannedPart(partitions=part) for part in parts(partitions, most)]


def parts(of: Sequence[T], most: int = AT_ONCE) -> Iterator[tuple[T, ...]]:
    """Give some partitions in turn, so many to an event."""
    for n in range(0, len(of), most):
        yield tuple(of[n : n + most])


def _planned(target: PartitionTarget, state: PartitionState, cluster: ClusterSnapshot) -> Planned:
    return Planned(
        topic=target.topic,
        partition=target.partition,
        topic_id=state.topic_id,
        target=target.replicas,
        original=state.original,
        leader=state.leader,
        size=cluster.size(target.tp) or 0,
    )
