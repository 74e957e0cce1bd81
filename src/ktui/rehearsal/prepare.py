"""Check a plan against a twin, as a start checks it against its cluster."""

from __future__ import annotations

import asyncio

import msgspec

from ktui.execution.run.first_events import first_events
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances, ClusterSnapshot
from ktui.planning.check.internal_left_out import leave_out_internal
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan
from ktui.preview.facts import ClusterFacts
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.rehearsal.play import Rehearsal
from ktui.rehearsal.twin import Pace, Twin
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster


class PlanToRehearse(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, and how it would be carried out."""

    plan: Plan
    name: str
    """The name of the run."""
    plan_name: str
    """The name of the plan's file."""
    limits: Limits
    options: RunOptions
    allowed: Allowances
    exclude_internal: bool = False
    """Whether Kafka's own topics are left out."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, checked against a twin."""

    preview: PlanPreview
    rehearsal: Rehearsal | None
    """None where the plan has problems, or nothing to do."""


def prepare(to_rehearse: PlanToRehearse, twin: Twin) -> Prepared:
    """Check a plan against a twin, and return its rehearsal, yet without a time or a fault."""
    wanted = to_rehearse
    plan, left_out = (
        leave_out_internal(wanted.plan) if wanted.exclude_internal else (wanted.plan, ())
    )
    seen = asyncio.run(_snapshot(plan, twin, measure=wanted.options.throttles))
    terms = wanted.options.terms(wanted.limits, wanted.allowed, wanted.name)
    base = PreviewBase(plan, ClusterFacts(seen=seen, cluster=twin.name), source=wanted.plan_name)
    preview = base.under(terms).with_findings(*left_out)
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
