"""What holds at the end of every run, whatever happened to it."""

from __future__ import annotations

from ktui.execution.run import Run
from ktui.execution.states import State
from support.chaos.run import ChaosRun
from support.runs_witnessed import facts

_WAITS = frozenset({State.QUEUED, State.READY, State.ROLLING_BACK})


def check_end(run: ChaosRun, outcome: Run) -> None:
    """Every partition has ended, or says what it waits for; and every setting is as it was."""
    assert len(run.targets) >= 20
    assert outcome.ended or _says_what_it_waits_for(run, outcome), "it stands still without a word"
    for track in outcome.tracks.values():
        told = track.state.ended or track.reason or track.state in _WAITS
        assert told or outcome.pauses.whole, track
    assert facts(Run("run").fold(run.entries())) == facts(outcome)
    run.check_settings(outcome)


def _says_what_it_waits_for(run: ChaosRun, outcome: Run) -> bool:
    """Whether a run that does not end names what keeps it: itself, or of a partition."""
    left = [track for track in outcome.tracks.values() if not track.state.ended]
    others = run.cluster.controller.reassigning.keys() - outcome.flying.keys()
    pauses = outcome.pauses
    paused = bool(pauses.whole or pauses.topics or pauses.partitions)
    whole = paused or outcome.gate.shut or not outcome.throttled.clean
    return whole or any(track.reason for track in left) or bool(others)
