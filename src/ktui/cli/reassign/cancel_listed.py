"""Cancel reassignments that no run of this state directory carries out, and await their end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import aclosing
from typing import NamedTuple

from ktui.cli.reassign.left_runs import RunsPlace
from ktui.cluster.clock import SystemClock
from ktui.cluster.fresh_read import FreshRead
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.cancel.foreign import ForeignCancel
from ktui.execution.cancel.foreign_log import CancelLog
from ktui.execution.cancel.foreign_outcome import ForeignOutcome, Settled, listed_reassignments
from ktui.execution.host.ownership import this_process
from ktui.execution.run.unanswered import MAY_COME_S

_AGAIN_S = 0.2
_OVER = (ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK, ForeignOutcome.COMPLETED)


class ListedCancels(NamedTuple):
    """What came of cancelling listed reassignments."""

    refused: Mapping[TopicPartition, str]
    """Why a partition is still being reassigned, or may be."""
    left_alone: Collection[TopicPartition] = ()
    """The partitions that are on the way to their own target."""
    completed: Collection[TopicPartition] = ()
    """The partitions that were at their target before the cancel arrived."""
    unlisted: Collection[TopicPartition] = ()
    """The partitions that were not being reassigned any more: nothing was sent for them."""


async def cancel_listed(
    place: RunsPlace,
    partitions: Collection[TopicPartition],
    unless: Mapping[TopicPartition, Brokers] | None = None,
) -> ListedCancels:
    """Cancel the reassignments of partitions, and wait until they are over.

    Each cancel is written to the log of cancels before it is sent.

    Args:
        place: the cluster and the state directory.
        partitions: what to cancel.
        unless: the targets on the way to which a partition is left alone.

    Raises:
        ClusterError: the cluster does not answer.
        RunProblem: the log cannot be written; nothing is sent that is not in it.
    """
    if not partitions:
        return ListedCancels({})
    clock, cluster = SystemClock(), place.target.cluster
    log = CancelLog(place.state, place.cluster_id, this_process().short, clock)
    async with aclosing(cluster.reader()) as reader, aclosing(cluster.writer()) as writer:
        cancel, fresh = ForeignCancel(writer, clock, log), FreshRead(reader, clock)
        seen = await fresh.read(partitions, to_cancel=True)
        wanted = frozenset(partitions)
        found = [move for tp, move in listed_reassignments(seen).items() if tp in wanted]
        alone = {m.tp for m in found if unless is not None and m.target == unless[m.tp]}
        moves = [move for move in found if move.tp not in alone]
        until_s = clock.monotonic() + MAY_COME_S
        try:
            await cancel.cancel(moves, seen)
            while cancel.pending and clock.monotonic() < until_s:
                await clock.sleep(_AGAIN_S)
                await cancel.follow(await fresh.read(cancel.pending))
        finally:
            cancel.give_up("its end was not seen. Check it: ktui list")
            log.write_outcomes()
    settled = cancel.settled.items()
    refused = {tp: _reason(how) for tp, how in settled if how.outcome not in _OVER}
    completed = [tp for tp, how in settled if how.outcome is ForeignOutcome.COMPLETED]
    return ListedCancels(refused, alone, completed, wanted - {move.tp for move in found})


def _reason(settled: Settled) -> str:
    return settled.detail or settled.outcome.value
