"""Cancel reassignments that no run has begun, chosen one by one in the live view."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
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


async def cancel_foreign(
    ports: ClusterPorts, state: StateDir, clock: Clock, moves: Collection[ListedReassignment]
) -> Mapping[TopicPartition, Settled]:
    """Cancel foreign reassignments after a fresh poll, and watch them until they are over.

    Args:
        ports: the ports of the cluster.
        state: the state directory for the log; none of its live runs may own a reassignment.
        clock: the cluster's clock.
        moves: the reassignments, as the view showed them.

    Returns:
        The outcome of each.

    Raises:
        RunProblem: a live run has begun one, or the log cannot be written; nothing was sent.
        ClusterError: the cluster does not answer; nothing was sent.
    """
    observer = Observer(ports.reader, clock)
    interest = Interest(partitions=frozenset(move.tp for move in moves), fresh=True)
    log = None
    try:
        seen = await observer.poll(interest)
        await asyncio.to_thread(_check_nobody_runs, state, seen.cluster_id, moves)
        log = CancelLog(state, seen.cluster_id, this_process().short, clock)
        cancel = ForeignCancel(ports.writer, clock, log)
        until_s = clock.monotonic() + MAY_COME_S
        await cancel.cancel(moves, seen)
        while cancel.pending and clock.monotonic() < until_s:
            await clock.sleep(_LOOK_S)
            with suppress(ClusterError):  # the cancel is sent, so keep waiting for its outcome
                await cancel.follow(await observer.poll(interest))
        cancel.give_up("its end was not seen")
        return cancel.settled
    finally:
        if log is not None:
            log.write_outcomes()
        await observer.aclose()


def _check_nobody_runs(
    state: StateDir, cluster_id: str, moves: Collection[ListedReassignment]
) -> None:
    """Check that no live run has begun a reassignment; it would not know whose cancel this is.

    Raises:
        RunProblem: a live run has; names the run.
    """
    for follower, owner in unfinished_journals(state, cluster_id):
        with follower:
            in_flight = follower.run.tracks_in_flight
            steps = (in_flight[move.tp] for move in moves if move.tp in in_flight)
            begun = next((track.tp for track in steps if track.step is not None), None)
            if owner is not None and begun is not None:
                name = follower.run.name
                raise RunProblem(
                    f"run {name} has begun the reassignment of {begun}. Stop it there: ktui cancel "
                    f"{name} --stop --partition {begun.topic}:{begun.partition}"
                )
