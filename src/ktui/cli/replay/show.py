"""Show a recording and its branches in turn, until the operator closes the replay."""

from __future__ import annotations

import asyncio
import math

import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.output.view import show_app
from ktui.cli.replay.branch import show_branch
from ktui.cli.replay.view import replay_app
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.state_dir import StateDir
from ktui.recording.replay_tape import Tape
from ktui.rehearsal.branch.point import BranchPoint
from ktui.rehearsal.branch.twin import twin_at
from ktui.simulated.scenario.record import FASTEST
from ktui.simulated.twin.make import ClusterTwin
from ktui.simulated.twin.rates import rates_of
from ktui.simulated.twin.scope import CannotSnapshot
from ktui.tui.replay.branching import NOTHING_POLLED, branch_point
from ktui.tui.replay.survey import Survey


class ShownRecording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording as an operator has named it."""

    tape: Tape
    name: str
    """Its name on the screen."""
    again: str
    """The beginning of the command that replays it from a position."""
    state: StateDir
    """The state directory, whose insights may know the cluster."""


def show_recording(
    shown: ShownRecording, at_s: float, *, speed: float, theme: str | None, branch: bool
) -> None:
    """Play a recording, and its branches in between.

    Args:
        shown: the recording.
        at_s: the second of the tape to begin at.
        speed: seconds of the recording in one real second.
        theme: the theme to start with.
        branch: whether to begin with a branch of that second, instead of playing.

    Raises:
        BadInput: there is no twin of the moment.
        FileProblem: the insights of the cluster cannot be read.
    """
    point = _first_point(shown, at_s) if branch else None
    plays = point is None
    while True:
        if point is not None:
            twin = _twin(shown, point)
            show_branch(point, twin, min(speed, FASTEST), theme)
            at_s = shown.tape.from_s + point.at_s
        with replay_app(
            shown.tape,
            at_s,
            recording=shown.name,
            speed=speed,
            theme=theme,
            again=shown.again.__add__,
        ) as app:
            app.plays = plays
            asyncio.run(show_app(app))
            point, theme, speed = app.branch, app.theme, app.speed
        if point is None:
            return
        plays = False


def _first_point(shown: ShownRecording, at_s: float) -> BranchPoint:
    survey = Survey(shown.tape)
    survey.go_on(math.inf)
    point = branch_point(shown.name, shown.tape, survey, at_s)
    if point is None:
        raise BadInput(f"--branch: {NOTHING_POLLED}")
    return point


def _twin(shown: ShownRecording, point: BranchPoint) -> ClusterTwin:
    otherwise = rates_of(EarlierRuns(shown.state)(shown.tape.cluster_id))
    try:
        return twin_at(point, otherwise)
    except CannotSnapshot as problem:
        raise BadInput(str(problem)) from None
