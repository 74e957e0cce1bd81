"""What a preview of a plan rests on, read from the cluster and the state directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import Unsupported
from ktui.cluster.permissions import CanaryObstacles, Permissions
from ktui.cluster.ports import ClusterReader
from ktui.execution.errors import RunRefused
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.catalog import movers_of, refuse_second_throttle, unfinished_runs
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.planning.check.findings import (
    TO_START,
    Finding,
    FindingKind,
    NeededPermission,
    Severity,
    missing_permissions,
    topics_of,
)
from ktui.planning.check.snapshot import measure_inbound, take_snapshot
from ktui.planning.plan import Plan
from ktui.preview.facts import ClusterFacts
from ktui.quantities import as_count


class Permits(Protocol):
    """Tells what the principal may do."""

    async def permissions(self, topics: Collection[str]) -> Permissions:
        """On the cluster and on topics. Raises ClusterError: nobody can tell."""
        ...

    async def canary_obstacles(self, topic: str) -> CanaryObstacles:
        """What keeps a canary from its topic, changing nothing. ClusterError."""
        ...


async def read_permissions(permits: Permits | None, topics: Collection[str]) -> Permissions | None:
    """Read permissions; None where Kafka has to refuse the request itself. Raises ClusterError."""
    if permits is None:
        return None
    try:
        return await permits.permissions(topics)
    except Unsupported:
        return None


async def read_obstacles(permits: Permits | None, canary: str) -> CanaryObstacles | None:
    """Return what keeps a canary from its topic; None if unknown. Raises ClusterError."""
    if permits is None or not canary:
        return None
    try:
        return await permits.canary_obstacles(canary)
    except Unsupported:
        return None


class FactReader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads what a preview rests on; sends nothing."""

    reader: ClusterReader
    state: StateDir
    clock: Clock  # measures traffic
    cluster: str = ""  # the cluster's name, cleaned for the terminal
    permits: Permits | None = None  # None where anybody may do anything
    standing: Callable[[str], Awaitable[tuple[Finding, ...]]] | None = None
    """Finds, by the cluster's id, what refuses any start: a shut gate, another owner.

    None where a start follows at once, and reports all that refuses it, live runs too.
    """

    async def read(
        self,
        plan: Plan,
        need: NeededPermission = TO_START,
        *,
        throttles: bool = False,
        canary: str = "",
        joins: str = "",
    ) -> ClusterFacts:
        """Read all that the preview of a plan rests on. Raises ClusterError or RunProblem.

        Measuring what a throttle is checked against takes seconds. `canary`: its topic; `joins`:
        the run that the plan is added to.
        """
        permitted = await read_permissions(self.permits, topics_of(plan))
        obstacles = await read_obstacles(self.permits, canary)
        measures = throttles and not _refused(permitted, obstacles, need, canary)
        seen = await take_snapshot(self.reader, plan, self.clock if measures else None)
        cluster_id = seen.cluster_id
        starts_later = self.standing is not None and not joins
        runs = await asyncio.to_thread(lambda: list(unfinished_runs(self.state, cluster_id)))
        if seen.listed:
            movers = movers_of((run for run, _ in runs), joins)
            seen = msgspec.structs.replace(seen, movers=movers)
        others = [(run, owner) for run, owner in runs if run.exported is None and run.name != joins]
        found = [
            _live(run) if owner is not None else _waiting(run, plan)
            for run, owner in others
            if owner is None or starts_later
        ]
        standing = () if self.standing is None else await self.standing(cluster_id)
        return ClusterFacts(
            seen=seen,
            cluster=self.cluster,
            cluster_id=cluster_id,
            permitted=permitted,
            obstacles=obstacles,
            standing=(
                *(
                    Finding(Severity.WARNING, FindingKind.OTHER_RUN, (), why)
                    for why in found
                    if why
                ),
                *standing,
            ),
            prior=await asyncio.to_thread(EarlierRuns(self.state), cluster_id),
            throttled_by=_throttled_by(runs) if starts_later else "",
        )

    async def add_throttle(self, plan: Plan, facts: ClusterFacts, canary: str = "") -> ClusterFacts:
        """Some seconds of traffic, and the canary's obstacles. Raises ClusterError."""
        obstacles = facts.obstacles or await read_obstacles(self.permits, canary)
        seen = await measure_inbound(self.reader, plan, facts.seen, self.clock)
        return msgspec.structs.replace(facts, seen=seen, obstacles=obstacles)


def _throttled_by(runs: Sequence[tuple[Run, Holder | None]]) -> str:
    try:
        refuse_second_throttle(runs)
    except RunRefused as refused:
        return str(refused)
    return ""


def _refused(
    permitted: Permissions | None,
    obstacles: CanaryObstacles | None,
    need: NeededPermission,
    canary: str,
) -> bool:
    """Whether a start lacks a permission: then nothing has to be measured for it."""
    need = msgspec.structs.replace(need, canary=canary)
    lacking = missing_permissions(permitted, obstacles, need)
    return need.moves is Severity.PROBLEM and bool(lacking)


def _live(run: Run) -> str:
    return (
        f"run {run.name} is live on this cluster. Add the plan to it with ktui add {run.name} "
        "PLAN, wait for its end, or start a second run with --concurrent"
    )


def _waiting(run: Run, plan: Plan) -> str:
    tracks = (run.tracks.get(each.tp) for each in plan.partitions)
    left = sum(track is not None and not track.state.ended for track in tracks)
    if not left:
        return ""
    return (
        f"run {run.name} is waiting for resume, with {as_count(left, 'partition')} of this plan "
        f"left to move. Go on with it: ktui resume {run.name}. Resumed later, it leaves out those "
        "that have changed by then"
    )
