"""Check a plan against a twin, as a start checks it against its cluster."""

from __future__ import annotations

import asyncio

import msgspec

from ktui.execution.host.launch import NewRun
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan
from ktui.preview.facts import ClusterFacts
from ktui.preview.preview import PlanPreview
from ktui.rehearsal.play import Rehearsal
from ktui.rehearsal.twin import Pace, Twin
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, checked against a twin."""

    preview: PlanPreview
    rehearsal: Rehearsal | None
    """None where the plan has problems, or nothing to do."""


def prepare(wanted: NewRun, twin: Twin) -> Prepared:
    """Check a run against a twin, and return its rehearsal, yet without a fault."""
    seen = asyncio.run(_snapshot(wanted.plan, twin, measure=wanted.options.throttles))
    facts = ClusterFacts(seen=seen, cluster=twin.name, cluster_id=twin.cluster_id)
    preview = wanted.preview_base(facts).under(wanted.terms).with_findings(*wanted.left_out)
    if preview.idle or preview.problems:
        return Prepared(preview=preview, rehearsal=None)
    first = tuple(wanted.first_events(facts))
    rehearsal = Rehearsal(name=wanted.name, first=first, until=wanted.until)
    return Prepared(preview=preview, rehearsal=rehearsal)


async def _snapshot(plan: Plan, twin: Twin, *, measure: bool) -> ClusterSnapshot:
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(twin.cluster(Pace.USUAL), clock)
    return await take_snapshot(cluster.reader(), plan, clock if measure else None)
