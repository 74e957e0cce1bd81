"""`ktui reassign` --cancel, --cancel-all and --remove-cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

import click

from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.reassign import printed
from ktui.cli.reassign.command import Arguments
from ktui.cli.reassign.files import ReassignmentFile
from ktui.cli.reassign.log_dirs import begin_moves, read_dirs
from ktui.cli.reassign.plan_throttles import FOREIGN, Foreign, Over, clear_throttles
from ktui.cli.reassign.printed import ActionFailed
from ktui.cli.reassign.reading import cluster_choice, reassignment_file, state_of
from ktui.cli.reassign.submit import (
    RunsPlace,
    check_not_live,
    left_runs,
    runs_place,
    settle,
)
from ktui.cluster.asking import FreshRead, read_cluster_and_reassignments
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.cluster.settings import SettingKey
from ktui.execution.cancel.foreign import (
    CancelLog,
    ForeignCancel,
    ForeignOutcome,
    Settled,
    listed_reassignments,
)
from ktui.execution.errors import RunProblem
from ktui.execution.host.ownership import CancelGateFile, shut_gate_in_words, this_process
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.planning.plan import join_named

_OVER = (ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK, ForeignOutcome.COMPLETED)


class ListedCancels(NamedTuple):
    """What came of cancelling listed reassignments."""

    refused: Mapping[TopicPartition, str]  # why a partition is still being reassigned, or may be
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
        unless: the targets on the way to which a partition is left alone.

    Raises:
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

        async def look(begun: bool) -> Observation:  # noqa: FBT001 - as ForeignCancel asks
            return await fresh.read(cancel.pending) if begun else seen

        await cancel.carry_out(look, lambda _: moves)
    settled = cancel.settled.items()
    refused = {tp: _reason(how) for tp, how in settled if how.outcome not in _OVER}
    completed = [tp for tp, how in settled if how.outcome is ForeignOutcome.COMPLETED]
    return ListedCancels(refused, alone, completed, wanted - {move.tp for move in found})


def _reason(settled: Settled) -> str:
    return settled.detail or settled.outcome.value


Listed = Mapping[TopicPartition, Reassignment]


def cancel(arguments: Arguments) -> None:
    """Cancel those reassignments of a file that are under way, and remove their throttles."""
    file = reassignment_file(arguments)
    targets, timeout_s = file.replicas, arguments.number("timeout") / 1000
    choice = cluster_choice(arguments)
    cluster_id, listed = _read(choice)
    active = [tp for tp in targets if tp in listed]
    cleared = _cancel(arguments, choice, cluster_id, active)
    _cancel_moves(arguments, choice, file, timeout_s)
    if not arguments.has("preserve-throttles"):
        over = Over(targets, log_dirs=True, cleared=cleared)
        foreign = Foreign.ALL if arguments.has(FOREIGN) else Foreign.OF_PLAN
        place = runs_place(arguments, choice.target(changes=False), cluster_id)
        clear_throttles(place, targets, over, foreign=foreign)


def cancel_all(arguments: Arguments) -> None:
    """Cancel every reassignment of the cluster (KIP-1351), and remove the throttles of our own."""
    choice = cluster_choice(arguments)
    cluster_id, listed = _read(choice)
    cleared = _cancel(arguments, choice, cluster_id, listed)
    over = Over((), log_dirs=False, cleared=cleared)
    place = runs_place(arguments, choice.target(changes=False), cluster_id)
    clear_throttles(place, {}, over, foreign=Foreign.KEPT)


def remove_cancel(arguments: Arguments) -> None:
    """Open the cancel gate of the cluster (KIP-236)."""
    cluster_id, _ = _read(cluster_choice(arguments))
    shut = CancelGateFile(state_of(arguments), cluster_id).open()
    click.echo(
        "The cancel gate was open." if shut is None else f"Opened: {shut_gate_in_words(shut)}."
    )


def _cancel_moves(
    arguments: Arguments, choice: ClusterChoice, file: ReassignmentFile, timeout_s: float
) -> None:
    """Send replicas back to the log dirs they are in, which ends their moves (KIP-113)."""
    cluster_id, back, unread = choice.cluster().ask(partial(_moving, file))
    if back:
        place = runs_place(arguments, choice.target(), cluster_id)
        asyncio.run(place.check_owner())
        asyncio.run(_send_back(place, back, timeout_s))
    if unread:
        raise RunProblem(
            f"{join_named('broker', unread)} did not say what moves between its log dirs: nothing "
            "is cancelled there. Once it answers, call --cancel again"
        )
    if not back:
        click.echo(printed.NO_MOVES_TO_CANCEL)


async def _moving(
    file: ReassignmentFile, reader: ClusterReader
) -> tuple[str, dict[Replica, str], list[int]]:
    """Return the cluster's id, where the file's moving replicas are, and the silent brokers."""
    described = await reader.describe_cluster()
    dirs = await read_dirs(reader, file.log_dirs, described.online)
    back = {replica: path for replica in dirs.future if (path := dirs.current[replica])}
    unread = {replica.broker for replica in file.log_dirs} - {r.broker for r in dirs.current}
    return described.cluster_id, back, sorted(unread)


async def _send_back(place: RunsPlace, back: Mapping[Replica, str], timeout_s: float) -> None:
    async with aclosing(place.target.cluster.writer()) as writer:
        async for line in begin_moves(writer, SystemClock(), back, timeout_s):
            click.echo(line)


def _read(choice: ClusterChoice) -> tuple[str, Listed]:
    cluster, listed = choice.cluster().ask(read_cluster_and_reassignments)
    return cluster.cluster_id, listed


def _cancel(
    arguments: Arguments,
    choice: ClusterChoice,
    cluster_id: str,
    active: Collection[TopicPartition],
) -> Collection[SettingKey]:
    if not active:
        click.echo(printed.NOTHING_TO_CANCEL)
        return ()
    place = runs_place(arguments, choice.target(), cluster_id)
    check_not_live(place.state, place.cluster_id, active)
    asyncio.run(place.check_owner())
    stopped: set[TopicPartition] = set()
    errors: dict[TopicPartition, str] = {}
    cleared: set[SettingKey] = set()
    if not arguments.has("preserve-throttles"):  # a run ends its throttles with its moves
        stopped, errors, cleared = _cancel_in_runs(place, active)
    others = asyncio.run(cancel_listed(place, [tp for tp in active if tp not in errors]))
    errors |= {**others.refused, **dict.fromkeys(others.completed, _COMPLETED)}
    errors |= {tp: _NOT_MOVING for tp in others.unlisted if tp not in stopped}
    if errors:
        raise ActionFailed(printed.cancels_refused(errors))
    click.echo(printed.reassignments_cancelled(active))
    return cleared


def _cancel_in_runs(
    place: RunsPlace, active: Collection[TopicPartition]
) -> tuple[set[TopicPartition], dict[TopicPartition, str], set[SettingKey]]:
    """Cancel in runs; return what stopped, the problems of others, and settings put back."""
    stopped: set[TopicPartition] = set()
    problems: dict[TopicPartition, str] = {}
    cleared: set[SettingKey] = set()
    for run in [*left_runs(place)]:
        theirs = tuple(tp for tp in active if tp in run.tracks_in_flight)
        if theirs:
            command = CancelMoves(CancelKind.STOP, partitions=theirs)
            after, put_back = settle(place, run.name, [command])
            problems |= _not_stopped(after, theirs)
            stopped |= {*theirs} - problems.keys()
            cleared |= {*put_back}
    return stopped, problems, cleared


_COMPLETED = "It was complete before the cancel arrived."
_NOT_MOVING = "No partition reassignment is in progress."
"""Kafka's words for a cancel of what is over."""


def _not_stopped(run: Run, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    tracks = [run.tracks[tp] for tp in partitions]
    return {
        track.tp: _COMPLETED if track.state is State.DONE else track.reason or track.state.words
        for track in tracks
        if track.state in {State.REFUSED, State.STOPPING, State.DONE}
    }
