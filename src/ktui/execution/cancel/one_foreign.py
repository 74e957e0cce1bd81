"""Cancel one reassignment that no run has begun, from the live view."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.ports import ClusterPorts
from ktui.execution.cancel.foreign import ForeignCancel
from ktui.execution.cancel.foreign_log import CancelLog
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import unfinished_journals
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.unanswered import MAY_COME_S

_LOOK_S = 0.5


async def cancel_one(
    ports: ClusterPorts, state: StateDir, clock: Clock, move: ListedReassignment
) -> Settled:
    """Cancel a foreign reassignment after a fresh poll, and watch it until it is over.

    Args:
        ports: the ports of the cluster.
        state: the state directory for the log; none of its live runs may own the reassignment.
        clock: the cluster's clock.
        move: the reassignment, as the view showed it.

    Raises:
        RunProblem: a live run has begun it, or the log cannot be written; nothing was sent.
        ClusterError: the cluster does not answer; nothing was sent.
    """
    observer = Observer(ports.reader, clock)
    interest = Interest(partitions=frozenset([move.tp]), fresh=True)
    log = None
    try:
        seen = await observer.poll(interest)
        await asyncio.to_thread(_check_nobody_runs, state, seen.cluster_id, move)
        log = CancelLog(state, seen.cluster_id, this_process().short, clock)
        cancel = ForeignCancel(ports.writer, clock, log)
        until_s = clock.monotonic() + MAY_COME_S
        await cancel.cancel([move], seen)
        while cancel.pending and clock.monotonic() < until_s:
            await clock.sleep(_LOOK_S)
            with suppress(ClusterError):  # the cancel is sent, so keep waiting for its outcome
                await cancel.follow(await observer.poll(interest))
        cancel.give_up("its end was not seen")
        return cancel.settled[move.tp]
    finally:
        if log is not None:
            log.write_outcomes()
        await observer.aclose()


def _check_nobody_runs(state: StateDir, cluster_id: str, move: ListedReassignment) -> None:
    """Check that no live run has begun a reassignment; it would not know whose cancel this is.

    Raises:
        RunProblem: a live run has; names the run.
    """
    for follower, owner in unfinished_journals(state, cluster_id):
        with follower:
            track = follower.run.tracks_in_flight.get(move.tp)
            if owner is not None and track is not None and track.step is not None:
                name = follower.run.name
                raise RunProblem(
                    f"run {name} has begun this reassignment. Stop it there: ktui cancel {name} "
                    f"--stop --partition {move.tp.topic}:{move.tp.partition}"
                )
