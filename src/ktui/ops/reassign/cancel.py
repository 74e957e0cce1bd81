"""--cancel and --cancel-all: reassignments cancelled by the runs that made them, or directly."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ktui.cluster.asking import FreshRead
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.settings import SettingKey
from ktui.execution.cancel.foreign import (
    CancelLog,
    ForeignCancel,
    ForeignOutcome,
    listed_reassignments,
)
from ktui.execution.errors import RunProblem
from ktui.execution.host.ownership import this_process
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.ops.reassign.log_dirs import begin_moves, read_dirs
from ktui.ops.reassign.runs import RunsPlace, check_not_live
from ktui.ops.reassign.tool import (
    CANCELLED,
    NO_MOVES_TO_CANCEL,
    NOT_CANCELLED,
    NOTHING_TO_CANCEL,
    ActionFailed,
    ReassignmentFile,
    errors_text,
    line,
)
from ktui.planning.plan import join_named

_OVER = (ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK, ForeignOutcome.COMPLETED)
_COMPLETED = "It was complete before the cancel arrived."
_NOT_MOVING = "No partition reassignment is in progress."
"""Kafka's words for a cancel of what is over."""


class ListedCancels(NamedTuple):
    """What came of cancelling listed reassignments."""

    refused: Mapping[TopicPartition, str]  # why a partition is still being reassigned, or may be
    left_alone: Collection[TopicPartition] = ()
    """The partitions that are on the way to their own target."""
    completed: Collection[TopicPartition] = ()
    """The partitions that were at their target before the cancel arrived."""
    unlisted: Collection[TopicPartition] = ()
    """The partitions that were not being reassigned any more: nothing was sent for them."""


def cancel_listed(
    place: RunsPlace,
    partitions: Collection[TopicPartition],
    unless: Mapping[TopicPartition, Brokers] | None = None,
) -> ListedCancels:
    """Cancel the reassignments of partitions, and wait until they are over.

    Each cancel is written to the log of cancels before it is sent.

    Args:
        unless: the targets on the way to which a partition is left alone.

    Raises:
        RunProblem: the log cannot be written; nothing is sent that is not in it.
    """
    if not partitions:
        return ListedCancels({})
    clock, wanted = SystemClock(), frozenset(partitions)
    log = CancelLog(place.state, place.cluster_id, this_process().short, clock)

    async def cancelled(ports: ClusterPorts) -> ListedCancels:
        cancel, fresh = ForeignCancel(ports.writer, clock, log), FreshRead(ports.reader, clock)
        seen = await fresh.read(partitions, to_cancel=True)
        found = [move for tp, move in listed_reassignments(seen).items() if tp in wanted]
        alone = {m.tp for m in found if unless is not None and m.target == unless[m.tp]}
        moves = [move for move in found if move.tp not in alone]

        async def look(begun: bool) -> Observation:  # noqa: FBT001 - as ForeignCancel asks
            return await fresh.read(cancel.pending) if begun else seen

        await cancel.carry_out(look, lambda _: moves)
        settled = cancel.settled.items()
        failed = {tp: s.detail or s.outcome.value for tp, s in settled if s.outcome not in _OVER}
        completed = [tp for tp, how in settled if how.outcome is ForeignOutcome.COMPLETED]
        return ListedCancels(failed, alone, completed, wanted - {move.tp for move in found})

    return place.act(cancelled)


def cancel(
    place: RunsPlace, active: Collection[TopicPartition], *, in_runs: bool
) -> Collection[SettingKey]:
    """Cancel what is under way; return the settings that were put back with it.

    Args:
        in_runs: whether runs cancel their own moves: they end their throttles with them.
    """
    if not active:
        place.say(NOTHING_TO_CANCEL)
        return ()
    check_not_live(place.state, place.cluster_id, active)
    place.act(lambda _: place.check_owner())
    stopped: set[TopicPartition] = set()
    errors: dict[TopicPartition, str] = {}
    cleared: set[SettingKey] = set()
    for run in [*place.left_runs()] if in_runs else ():
        if theirs := tuple(tp for tp in active if tp in run.tracks_in_flight):
            command = CancelMoves(CancelKind.STOP, partitions=theirs)
            after, put_back = place.settle(run.name, [command])
            errors |= _not_stopped(after, theirs)
            stopped |= {*theirs} - errors.keys()
            cleared |= {*put_back}
    others = cancel_listed(place, [tp for tp in active if tp not in errors])
    errors |= {**others.refused, **dict.fromkeys(others.completed, _COMPLETED)}
    errors |= {tp: _NOT_MOVING for tp in others.unlisted if tp not in stopped}
    if errors:
        raise ActionFailed(errors_text(NOT_CANCELLED, errors))
    place.say(line(CANCELLED, active))
    return cleared


def _not_stopped(run: Run, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    tracks = [run.tracks[tp] for tp in partitions]
    return {
        track.tp: _COMPLETED if track.state is State.DONE else track.reason or track.state.words
        for track in tracks
        if track.state in {State.REFUSED, State.STOPPING, State.DONE}
    }


def cancel_moves(place: RunsPlace, file: ReassignmentFile, timeout_s: float) -> None:
    """Send replicas back to the log dirs they are in, which ends their moves (KIP-113)."""

    async def moving(ports: ClusterPorts) -> tuple[dict[Replica, str], set[int]]:
        online = (await ports.reader.describe_cluster()).online
        dirs = await read_dirs(ports.reader, file.log_dirs, online)
        back = {replica: path for replica in dirs.future if (path := dirs.current[replica])}
        return back, {each.broker for each in file.log_dirs} - {r.broker for r in dirs.current}

    async def send_back(ports: ClusterPorts) -> None:
        await place.check_owner()
        async for words in begin_moves(ports.writer, SystemClock(), back, timeout_s):
            place.say(words)

    back, silent = place.act(moving)
    if back:
        place.act(send_back)
    if silent:
        raise RunProblem(
            f"{join_named('broker', sorted(silent))} did not say what moves between its log dirs: "
            "nothing is cancelled there. Once it answers, call --cancel again"
        )
    if not back:
        place.say(NO_MOVES_TO_CANCEL)
