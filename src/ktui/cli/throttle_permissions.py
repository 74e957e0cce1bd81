"""The permissions that another throttle of a live run needs, looked at before it is asked for."""

from __future__ import annotations

import asyncio

from ktui.cli.errors import BadInput
from ktui.cli.plan_permissions import Need, missing_for
from ktui.cli.start_launch import Target, check_cluster, run_names, say, target
from ktui.cluster.errors import ClusterError
from ktui.execution.problem import RunRefused
from ktui.execution.run import Run
from ktui.fileproblem import FileProblem
from ktui.planning.finding import Finding, Severity


def check_permitted(run: Run) -> None:
    """See that the principal of a run may set a throttle on what the run moves still.

    The run's process sets it, so a look that fails here forbids nothing: it is warned of.

    Raises:
        BadInput: a permission is missing; names it.
    """
    begun = run.started
    if begun is None or not begun.connection:  # a run on a simulated cluster
        return
    try:
        where = target(*run_names((None, None, None), begun), changes=False)
        missing = asyncio.run(_missing(run, where, begun.cluster_id))
    except (BadInput, FileProblem, RunRefused, ClusterError) as error:
        say(f"warning: whether this throttle is permitted was not seen from here: {error}")
        return
    if missing:
        sentences = "; ".join(finding.sentence for finding in missing)
        raise BadInput(f"nothing was asked of run {run.name}: {sentences}")


async def _missing(run: Run, where: Target, cluster_id: str) -> tuple[Finding, ...]:
    await check_cluster(where, cluster_id)
    need = Need(subject=f"run {run.name}", moves=None, throttles=Severity.PROBLEM)
    topics = {tp.topic for tp, track in run.tracks.items() if not track.state.ended}
    return await missing_for(need, where.cluster, topics)
