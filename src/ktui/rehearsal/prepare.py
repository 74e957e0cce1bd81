"""Check a plan against a twin, as a start checks it against its cluster."""

from __future__ import annotations

import asyncio

import msgspec

from ktui.execution.host.launch import NewRun
from ktui.execution.run.first_events import first_events
from ktui.planning.check.findings import ClusterSnapshot, Finding
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan
from ktui.preview.facts import ClusterFacts
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.rehearsal.play import Rehearsal
from ktui.rehearsal.twin import Pace, Twin
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, checked against a twin."""

    preview: PlanPreview
    rehearsal: Rehearsal | None
    """None where the plan has problems, or nothing to do."""


def prepare(wanted: NewRun, twin: Twin, left_out: tuple[Finding, ...] = ()) -> Prepared:
    """Check a run against a twin, and return its rehearsal, yet without a time or a fault.

    Args:
        wanted: the run.
        twin: the twin.
        left_out: what was left out of its plan before.
    """
    plan = wanted.plan
    seen = asyncio.run(_snapshot(plan, twin, measure=wanted.options.throttles))
    base = PreviewBase(plan, ClusterFacts(seen=seen, cluster=twin.name), source=wanted.plan_name)
    preview = base.under(wanted.terms).with_findings(*left_out)
    if preview.idle or preview.problems:
        return Prepared(preview=preview, rehearsal=None)
    first = first_events(
        plan,
        seen,
        wanted.limits,
        wanted.options,
        cluster_id=twin.cluster_id,
        plan_name=wanted.plan_name,
    )
    return Prepared(preview=preview, rehearsal=Rehearsal(name=wanted.name, first=tuple(first)))


async def _snapshot(plan: Plan, twin: Twin, *, measure: bool) -> ClusterSnapshot:
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(twin.cluster(Pace.USUAL), clock)
    return await take_snapshot(cluster.reader(), plan, clock if measure else None)
