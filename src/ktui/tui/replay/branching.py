"""Take the moment of a recording from which an operator goes on otherwise."""

from __future__ import annotations

from ktui.cluster.text import clean
from ktui.recording.replay_tape import Tape
from ktui.rehearsal.branch.point import BranchPoint
from ktui.tui.replay.survey import Survey
from ktui.tui.replay.walk import Walk

NOTHING_POLLED = "Nothing was polled before this moment, so there is no twin of it."


def branch_point(recording: str, tape: Tape, survey: Survey, at_s: float) -> BranchPoint | None:
    """Return a moment of a recording; None where nothing was polled before it.

    Args:
        recording: the recording's name, cleaned for the terminal.
        tape: the recording.
        survey: the survey of the whole recording, which is over.
        at_s: the second of the tape.
    """
    walk = Walk(tape, survey.before(at_s))
    walk.to(at_s)
    last = walk.progress.last
    if last is None:
        return None
    return BranchPoint(
        recording=recording,
        cluster=clean(tape.cluster or tape.cluster_id),
        at=last.at,
        at_s=walk.at_s - tape.from_s,
        clock_s=last.monotonic_s,
        progress=walk.progress,
        runs=tuple(run for run in survey.runs if run.entries[0].at <= last.at),
        happened=tuple(survey.happened),
        prior=survey.rates.prior,
    )
