"""The first events of a run: its targets, and the state of its partitions before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from ktui import __version__
from ktui.cluster.broker import racks_of
from ktui.cluster.partition import PartitionState
from ktui.execution.run.events import AnyRunEvent, Planned, PlannedPart, Started
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.pacing.queue import Copies, copies_to, with_bytes_ahead
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json

T = TypeVar("T")

AT_ONCE = 1_000  # partitions in one event, so that its size is written and read well


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
    """Return a run's first events; the plan was checked against the cluster without a problem."""
    planned = planned_partitions(plan, cluster)
    started = Started(
        cluster_id=cluster_id,
        plan=plan_name,
        plan_sha256=hash_plan(plan),
        partitions=len(planned),
        limits=limits,
        options=options,
        connection=dict(connection or {}),
        version=__version__,
        racks=_brokers_by_rack(cluster),
    )
    return [started, *planned_parts(planned)]


def _brokers_by_rack(cluster: ClusterSnapshot) -> dict[str, tuple[int, ...]]:
    racks = sorted(racks_of(cluster.brokers.values()).items())
    return {rack: tuple(b for b, of in racks if of == rack) for _, rack in racks}


def planned_partitions(plan: Plan, cluster: ClusterSnapshot) -> list[Planned]:
    """Return a plan's partitions in its order, as far as the cluster has them."""
    rules = PlanRules(cluster)
    states = ((target, rules.state(target.tp)) for target in plan.partitions)
    planned = [_planned(target, state, cluster) for target, state in states if state is not None]
    return with_bytes_ahead(planned, _copies)


def hash_plan(plan: Plan) -> str:
    """Return the SHA-256 of a plan's file, as hex digits."""
    return hashlib.sha256(plan.text or plan_as_json(plan).encode()).hexdigest()


def planned_parts(partitions: Sequence[Planned], most: int = AT_ONCE) -> list[PlannedPart]:
    """Return a run's partitions as events, at most `most` partitions in each."""
    return [PlannedPart(partitions=part) for part in chunked(partitions, most)]


def chunked(of: Sequence[T], most: int = AT_ONCE) -> Iterator[tuple[T, ...]]:
    """Split a sequence into tuples of at most `most` items."""
    for n in range(0, len(of), most):
        yield tuple(of[n : n + most])


def _copies(planned: Planned) -> Copies:
    return copies_to(planned.target, planned.original, planned.leader, planned.size)


def _planned(target: PartitionTarget, state: PartitionState, cluster: ClusterSnapshot) -> Planned:
    size = cluster.size(target.tp)
    return Planned(
        topic=target.topic,
        partition=target.partition,
        topic_id=state.topic_id,
        target=target.replicas,
        original=state.original,
        leader=state.leader,
        size=size or 0,
        sized=size is not None,
    )
