"""What the check of a plan has to know of its cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import msgspec

from ktui.cli.context.claim import ClaimRequest, owner_findings
from ktui.cli.context.cluster import Cluster, read_cluster_for_plan
from ktui.cli.doctor.permissions import permission_findings
from ktui.execution.host.other_runs import find_movers
from ktui.execution.host.state_dir import StateDir
from ktui.planning.check.findings import ClusterSnapshot, Finding
from ktui.planning.plan import Plan


class ClusterFacts(msgspec.Struct, frozen=True):
    """A cluster as a plan concerns it."""

    cluster_id: str
    seen: ClusterSnapshot
    lacking: tuple[Finding, ...]
    """The permissions that the principal lacks."""
    owner: tuple[Finding, ...]
    """What a start would find out about the cluster's owner."""


async def read_cluster_facts(
    cluster: Cluster,
    plan: Plan,
    state: StateDir,
    *,
    throttled: bool,
    starts: bool,
    canary: str,
    claim: Callable[[str], ClaimRequest | None] | None,
) -> ClusterFacts:
    """Read all that the check of a plan has to know.

    Args:
        cluster: the cluster.
        plan: the plan.
        state: the state directory, whose runs may be reassigning partitions of the plan.
        throttled: whether the run has a throttle; its check takes some seconds.
        starts: whether a missing permission keeps the run from being started.
        canary: the topic of the run's canary; empty for none.
        claim: returns the claim that a run makes on a cluster with this id; None leaves the
            cluster's owner out.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    lacking = await permission_findings(
        cluster, plan, throttled=throttled, starts=starts, canary=canary
    )
    measure = throttled and not (starts and lacking)
    async with aclosing(cluster.reader()) as reader:
        cluster_id, seen = await read_cluster_for_plan(reader, plan, measure=measure)
        owner = () if claim is None else await owner_findings(claim(cluster_id), reader)
    if seen.listed:
        seen = msgspec.structs.replace(seen, movers=find_movers(state, cluster_id))
    return ClusterFacts(cluster_id, seen, lacking, owner)
