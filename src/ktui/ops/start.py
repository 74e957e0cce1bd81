"""A planned run, checked against its cluster: what that rests on, and what speaks against it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from typing import Protocol

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import Unsupported
from ktui.cluster.partition import Replica
from ktui.cluster.ports import CanaryObstacles, ClusterReader, Permissions
from ktui.execution import RunRefused
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.catalog import movers_of, refuse_second_throttle, unfinished_runs
from ktui.execution.host.launch import NewRun
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.options import local_minute
from ktui.execution.run.run import Run
from ktui.execution.run.text import schedule_text
from ktui.planning.check.findings import (
    TO_START,
    ClusterSnapshot,
    Finding,
    FindingKind,
    NeededPermission,
    Severity,
    missing_permissions,
    topics_of,
)
from ktui.planning.check.snapshot import measure_inbound, take_snapshot
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.preview.facts import ClusterFacts
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_count, as_duration
from ktui.speed.answer import HowLong, time_text
from ktui.speed.simulate import OnDecision


class Permits(Protocol):
    """The operations that the connection's principal is allowed."""

    async def permissions(self, topics: Collection[str]) -> Permissions:
        """On the cluster and on topics. Raises ClusterError: nobody can tell."""
        ...

    async def canary_obstacles(self, topic: str) -> CanaryObstacles:
        """What keeps a canary from its topic, changing nothing. ClusterError."""
        ...


async def read_permissions(permits: Permits | None, topics: Collection[str]) -> Permissions | None:
    """Read permissions; None where Kafka has to refuse the request itself. Raises ClusterError."""
    with suppress(Unsupported):
        return None if permits is None else await permits.permissions(topics)
    return None


async def read_obstacles(permits: Permits | None, canary: str) -> CanaryObstacles | None:
    """Return what keeps a canary from its topic; None if unknown. Raises ClusterError."""
    with suppress(Unsupported):
        return None if permits is None or not canary else await permits.canary_obstacles(canary)
    return None


async def find_missing_for_throttle(
    run: Run, permits: Permits, rates: ThrottleRates | None
) -> tuple[Finding, ...]:
    """Find the permissions that are missing to throttle what a run still has to move."""
    need = NeededPermission(
        subject=f"run {run.name}",
        moves=None,
        throttles=Severity.PROBLEM,
        canary="" if rates is None else run.options.canary_of(run.name, rates),
    )
    topics = {tp.topic for tp, track in run.tracks.items() if not track.state.ended}
    permitted = await read_permissions(permits, topics)
    obstacles = await read_obstacles(permits, need.canary)
    return missing_permissions(permitted, obstacles, need)


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
    if not (left := sum(track is not None and not track.state.ended for track in tracks)):
        return ""
    return (
        f"run {run.name} is waiting for resume, with {as_count(left, 'partition')} of this plan "
        f"left to move. Go on with it: ktui resume {run.name}. Resumed later, it leaves out those "
        "that have changed by then"
    )


class CheckedRun(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A planned run, and its cluster as found."""

    new: NewRun
    facts: ClusterFacts
    need: NeededPermission = TO_START
    now: datetime

    @cached_property
    def preview(self) -> PlanPreview:
        return self.previewed(roughly=True)

    def previewed(
        self, on_decision: OnDecision | None = None, *, roughly: bool = False
    ) -> PlanPreview:
        base, new = self.new.preview_base(self.facts, self.need), self.new
        preview = base.under(new.terms, on_decision, roughly=roughly).without(
            lambda finding: finding.kind in new.asked_for
        )
        return preview.with_findings(*new.left_out, *self._promises(preview))

    def _promises(self, preview: PlanPreview) -> Iterator[Finding]:
        if preview.problems or preview.idle:
            return
        if self.new.until is not None:
            yield fits(preview.how_long, self.new.until, self.now)
        if self.new.options.schedule.by is not None:
            yield self._by(preview.how_long, self.new.options.schedule.by)

    def _by(self, how_long: HowLong | None, by: datetime) -> Finding:
        schedule = self.new.options.schedule
        words = f"steps begin {schedule_text(schedule)}"
        if how_long is None:
            return _late(f"{words}: sizes are unknown, so ktui cannot say whether that can be kept")
        expected = f"Without a throttle the plan takes {time_text(how_long)}"
        low, high = how_long.time_s.low, how_long.time_s.high
        soonest, latest = schedule.after(self.now, low), schedule.after(self.now, high)
        if latest is not None and latest <= by:
            return _in_time(f"{words}: there is room to go slower. {expected}")
        if soonest is None or soonest > by:
            at = "" if soonest is None else f", {local_minute(soonest)} is the soonest"
            return _late(f"{words}: that is too early{at}. {expected}")
        return _late(
            f"{words}: that may be too early. {expected}. The run says so once it knows its rate"
        )


async def check_run(
    new: NewRun, reader: FactReader, now: datetime, need: NeededPermission = TO_START
) -> CheckedRun:
    """Read the cluster for a planned run, sending nothing. Raises ClusterError, RunProblem."""
    terms = new.terms
    facts = await reader.read(new.plan, need, throttles=terms.throttles, canary=terms.canary)
    facts = msgspec.structs.replace(facts, seen=_with_created(facts.seen, new))
    return CheckedRun(new=new, facts=facts, need=need, now=now)


def _with_created(seen: ClusterSnapshot, new: NewRun) -> ClusterSnapshot:
    created = new.created
    sizes = {Replica(tp, broker): 0 for tp, state in created.items() for broker in state.replicas}
    return msgspec.structs.replace(
        seen,
        partitions={**seen.partitions, **created},
        sizes={**seen.sizes, **sizes},
        inbound={**seen.inbound, **dict.fromkeys(created, 0)},
    )


def fits(how_long: HowLong | None, until: datetime, now: datetime) -> Finding:
    """Return whether a plan is expected to be done by the time of --until."""
    left_s = (until - now).total_seconds()
    clock = f"until {until:%Y-%m-%d %H:%M:%S %z}, in {as_duration(left_s)}"
    if how_long is None:
        return _late(f"{clock}: sizes are unknown, so ktui cannot say whether the plan fits")
    takes = f"It takes {time_text(how_long)}"
    if how_long.time_s.high <= left_s:
        return _in_time(f"{clock}: the plan fits. {takes}")
    fits = "does not fit" if how_long.time_s.low > left_s else "may not fit"
    rest = "what does not fit is left for `ktui resume`"
    return _late(f"{clock}: the plan {fits}; {rest}. {takes}")


_in_time = partial(Finding, Severity.NOTE, FindingKind.PROMISE, ())
_late = partial(Finding, Severity.WARNING, FindingKind.PROMISE, ())
