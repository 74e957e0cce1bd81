"""A run that no process owns, as the one before left it."""

from __future__ import annotations

import msgspec

from ktui.execution.events import Started
from ktui.execution.follow import RunFollower
from ktui.execution.ownership import Held, holder
from ktui.execution.problem import RunProblem
from ktui.execution.run import Run
from ktui.execution.statedir import RunDir


class LeftRun(msgspec.Struct, frozen=True):
    """What there is to go on with."""

    run: Run
    begun: Started
    damage: str | None
    """What of its journal cannot be read; what comes before it can."""


def left_run(run_dir: RunDir) -> LeftRun:
    """Read a run.

    Raises:
        Held: a process owns it.
        RunProblem: nothing of it can be read, or its start was cut off.
    """
    who = holder(run_dir)
    if who is not None:
        raise Held(run_dir.name, who)
    with RunFollower(run_dir.journal) as follower:
        follower.refresh()
    begun = follower.run.started
    if begun is None:
        cut = f"{run_dir.journal}: the start of the run was cut off, and nothing was sent"
        raise RunProblem(follower.damage or cut)
    return LeftRun(follower.run, begun, follower.damage)
