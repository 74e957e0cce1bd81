"""The moves between log dirs of `ktui reassign --execute`: checked, then sent at once or paced."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

import click
import msgspec

from ktui.cli.context.terminal import print_note
from ktui.cli.reassign.command_line.arguments import Arguments
from ktui.cli.reassign.left_runs import RunsPlace
from ktui.cli.reassign.log_dirs.check import (
    IGNORES_ROOM,
    as_lines,
    dir_problems,
    read_before_moves,
    room_problems,
    unknown_dir_problems,
    unmeasured,
)
from ktui.cli.reassign.log_dirs.moves import LogDirMoves
from ktui.cli.reassign.log_dirs.paced import PacedMoves, Patience
from ktui.cli.reassign.log_dirs.pacing import Pace
from ktui.cli.reassign.log_dirs.report import PrintedReport
from ktui.cli.reassign.printed.lines import replica_name
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.execution.errors import RunProblem, RunRefused
from ktui.quantities import as_count

PER_DIR, ONE_BROKER = "log-dir-moves", "one-broker-at-a-time"


class WantedMoves(msgspec.Struct, frozen=True):
    """The moves between log dirs that a file asks for."""

    dirs: Mapping[Replica, str]
    states: Mapping[TopicPartition, PartitionState]
    """The partitions of the file, as they were before anything was sent."""
    pace: Pace
    patience: Patience


def requested_pace(arguments: Arguments) -> Pace:
    """Return the pace that a command line asks for.

    Raises:
        BadArguments: an option was given twice, or without its value.
    """
    return Pace(
        per_dir=arguments.number(PER_DIR) if arguments.has(PER_DIR) else None,
        one_broker=arguments.has(ONE_BROKER),
        full_dirs=arguments.has(IGNORES_ROOM.removeprefix("--")),
    )


def requested_patience(arguments: Arguments) -> Patience:
    """Return the times that a command line asks for.

    Raises:
        BadArguments: an option was given twice, or without its value.
    """
    return Patience(
        poll_s=arguments.number("reassignment-poll-interval-ms") / 1000,
        absent_s=arguments.number("timeout") / 1000,
    )


async def check_moves(reader: ClusterReader, wanted: WantedMoves, *, sent: str = "") -> None:
    """Check that moves have log dirs that work, and room there.

    Paced moves may wait for room, and need only log dirs.

    Args:
        reader: the cluster.
        wanted: the moves.
        sent: what goes on although no move is sent; empty before anything was sent.

    Raises:
        RunRefused: with all the reasons; none of the moves was sent.
    """
    seen = await read_before_moves(reader, wanted.dirs, wanted.states)
    end = f"{sent}, and no replica was sent to a log dir" if sent else "Nothing was sent"
    problems = dir_problems(wanted.dirs, seen)
    if wanted.pace.is_asked_for:
        problems += unknown_dir_problems(wanted.dirs, seen)
        problems += [failure.sentence for failure in seen.failures]
    if problems:
        raise RunRefused(f"{as_lines(problems)}\n{end}")
    if wanted.pace.full_dirs:
        return
    if not sent:
        for failure in () if wanted.pace.is_asked_for else seen.failures:
            print_note(f"{failure.sentence}: the room in its log dirs is not checked")
        if unknown := unmeasured(seen):
            print_note(unknown)
    if not wanted.pace.is_asked_for and (problems := room_problems(wanted.dirs, seen)):
        raise RunRefused(
            f"{as_lines(problems)}\n{end}: a full log dir takes all its replicas offline. Make "
            f"room, let moves wait for room with --{PER_DIR} N, or ignore it with {IGNORES_ROOM}"
        )


async def move_log_dirs(place: RunsPlace, wanted: WantedMoves) -> None:
    """Move replicas between log dirs: all at once and without waiting, or at a pace to the end.

    Raises:
        ReassignProblem: a broker has refused a move.
        ActionFailed: the time is over, and brokers do not have the replicas yet.
        RunRefused: something speaks against the moves by now; none was sent.
        RunProblem: paced moves are not all complete; names each with its reason.
        ClusterError: a broker cannot be reached; nothing was sent to it.
    """
    cluster = place.target.cluster
    async with aclosing(cluster.reader()) as reader, aclosing(cluster.writer()) as writer:
        if wanted.pace.is_asked_for:
            with PrintedReport() as report:
                paced = PacedMoves(
                    reader,
                    writer,
                    SystemClock(),
                    pace=wanted.pace,
                    patience=wanted.patience,
                    allowed=lambda: _check_allowed(_without_take_over(place)),
                    report=report,
                )
                left = await paced.move(wanted.dirs)
            _report_end(wanted, left)
            return
        await check_moves(reader, wanted, sent="The reassignment of partitions goes on")
        moves = LogDirMoves(writer, SystemClock(), wanted.patience.absent_s)
        async for line in moves.begin(wanted.dirs):
            click.echo(line)


async def _check_allowed(place: RunsPlace) -> None:
    """Check the gate and the owner of the cluster, which may have changed since the start."""
    place.check_gate()
    await place.check_owner()


def _without_take_over(place: RunsPlace) -> RunsPlace:
    """Take a cluster over at most once: whoever takes it over later is not overruled."""
    if place.owner is None:
        return place
    return place._replace(owner=msgspec.structs.replace(place.owner, take_over=False))


def _report_end(wanted: WantedMoves, left: Mapping[Replica, str]) -> None:
    if not left:
        print_note(f"complete: {as_count(len(wanted.dirs), 'move')} between log dirs")
        return
    rows = [f"{replica_name(replica)}: {why}" for replica, why in left.items()]
    raise RunProblem(
        f"{as_count(len(left), 'move')} between log dirs not complete:\n{as_lines(rows)}\n"
        "The same command goes on with what is left"
    )
