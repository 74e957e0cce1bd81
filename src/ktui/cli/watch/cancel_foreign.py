"""One reassignment that no run has begun, cancelled from the live view."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ktui.cli.process.send_command import asker
from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.ports import ClusterPorts
from ktui.execution.cancel.foreign import ForeignCancel
from ktui.execution.cancel.foreign_log import CancelLog
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import unfinished_journals
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.unanswered import MAY_COME_S

_LOOK_S = 0.5


async def cancel_one(
    ways: ClusterPorts, state: StateDir, clock: Clock, move: ListedReassignment
) -> Settled:
    """Cancel it after a fresh look, and watch it until it is over.

    Args:
        ways: the ways into its cluster.
        state: where it is written down, and whose runs it may not belong to.
        clock: time.
        move: the reassignment, as it was shown.

    Raises:
        RunProblem: a live run has begun it, or it cannot be written down; nothing was sent.
        ClusterError: the cluster cannot be looked at; nothing was sent.
    """
    observer = Observer(ways.reader, clock)
    interest = Interest(partitions=frozenset([move.tp]), fresh=True)
    log = None
    try:
        seen = await observer.poll(interest)
        await asyncio.to_thread(_check_nobody_runs, state, seen.cluster_id, move)
        log = CancelLog(state, seen.cluster_id, asker(), clock)
        cancel = ForeignCancel(ways.writer, clock, log)
        until_s = clock.monotonic() + MAY_COME_S
        await cancel.cancel([move], seen)
        while cancel.pending and clock.monotonic() < until_s:
            await clock.sleep(_LOOK_S)
            with suppress(ClusterError):  # it has been sent: what became of it is worth waiting for
                await cancel.look(await observer.poll(interest))
        cancel.leave("it was not seen to be over")
        return cancel.settled[move.tp]
    finally:
        if log is not None:
            log.left()
        await observer.aclose()


def _check_nobody_runs(state: StateDir, cluster_id: str, move: ListedReassignment) -> None:
    """See that no live run has begun it: that would take the cancel for somebody else's.

    Raises:
        RunProblem: one has; says which, and what to do.
    """
    for follower, owner in unfinished_journals(state, cluster_id):
        with follower:
            track = follower.run.flying.get(move.tp)
            if owner is not None and track is not None and track.step is not None:
                name = follower.run.name
                raise RunProblem(
                    f"run {name} has begun it: r attaches to that run, c stops it there"
                )
