"""Compare the permissions that a run needs with those that the principal has."""

from __future__ import annotations

import asyncio

from ktui.cli.context.cluster import Cluster, ClusterChoice, check_cluster
from ktui.cli.context.terminal import BadInput, print_note
from ktui.cluster.errors import ClusterError
from ktui.execution.errors import RunRefused
from ktui.execution.run.run import Run
from ktui.inputfile import FileProblem
from ktui.ops.start import read_obstacles, read_permissions
from ktui.planning.check.findings import Finding, NeededPermission, Severity, missing_permissions
from ktui.planning.throttle_rates import ThrottleRates


def check_throttle_permitted(run: Run, rates: ThrottleRates | None = None) -> None:
    """Check that a run's principal may set a throttle on the partitions still to be moved.

    The run's engine sets the throttle. So a check that fails here only prints a warning. The run's
    canary may have to measure the objective of the new rates.
    """
    begun = run.started
    if begun is None or not begun.connection:  # a run on a simulated cluster
        return
    try:
        where = ClusterChoice().or_of_run(begun).target(changes=False)
        asyncio.run(check_cluster(where, begun.cluster_id))
        missing = asyncio.run(find_missing_for_throttle(run, where.cluster, rates))
    except (BadInput, FileProblem, RunRefused, ClusterError) as error:
        print_note(f"warning: ktui could not check whether this throttle is permitted: {error}")
        return
    if missing:
        sentences = "; ".join(finding.sentence for finding in missing)
        raise BadInput(f"run {run.name} is unchanged: {sentences}")


async def find_missing_for_throttle(
    run: Run, cluster: Cluster, rates: ThrottleRates | None
) -> tuple[Finding, ...]:
    """Find the permissions that are missing to throttle what a run still has to move."""
    need = NeededPermission(
        subject=f"run {run.name}",
        moves=None,
        throttles=Severity.PROBLEM,
        canary="" if rates is None else run.options.canary_of(run.name, rates),
    )
    topics = {tp.topic for tp, track in run.tracks.items() if not track.state.ended}
    permitted = await read_permissions(cluster, topics)
    obstacles = await read_obstacles(cluster, need.canary)
    return missing_permissions(permitted, obstacles, need)
