"""A run that can be resumed, read from its journal."""

from __future__ import annotations

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.execution.errors import RunProblem
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.ownership import OwnedElsewhere, holder
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.journal.follower import RunFollower
from ktui.execution.journal.journal import Journal
from ktui.execution.run.cancel_scope import effect_of_cancel, tracks_in_scope
from ktui.execution.run.events import Started
from ktui.execution.run.run import Run


class LeftRun(msgspec.Struct, frozen=True):
    """A run as its journal has it."""

    run: Run
    begun: Started
    damage: str | None
    """The damage to the journal; everything before the damage was read."""


def read_left_run(run_dir: RunDir) -> LeftRun:
    """Read a run that has no engine.

    Raises:
        OwnedElsewhere: an engine owns it.
        RunRefused: it was exported.
        RunProblem: nothing of it can be read, or its start was cut off.
    """
    owner = holder(run_dir)
    if owner is not None:
        raise OwnedElsewhere(run_dir.name, owner)
    left = read_run(run_dir)
    refuse_exported(left.run)
    return left


def read_run(run_dir: RunDir) -> LeftRun:
    """Read a run, with or without an engine.

    Raises:
        RunProblem: nothing of it can be read, or its start was cut off.
    """
    with RunFollower(run_dir.journal) as follower:
        follower.refresh()
    begun = follower.run.started
    if begun is None:
        cut = f"{run_dir.journal}: the start of the run was cut off, and nothing was sent"
        raise RunProblem(follower.damage or cut)
    return LeftRun(follower.run, begun, follower.damage)


def reopens(run_dir: RunDir, run: Run) -> bool:
    """Whether an ended run goes on, because a cancel of some part of it is not answered yet."""
    with Journal.open(run_dir.journal, SystemClock(), read_only=True) as journal:
        commands = [asked.command for asked in journal.asked()]
    return any(
        not effect_of_cancel(track, command.kind).idle
        for command in commands
        if isinstance(command, CancelMoves)
        for track in tracks_in_scope(run, command.topics, command.partitions)
    )
