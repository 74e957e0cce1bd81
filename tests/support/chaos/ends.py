"""Checks that hold at the end of every run, whatever happened to it."""

from __future__ import annotations

from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.run import Run
from support.chaos.run import ChaosRun
from support.runs.witnessed import facts


def check_end(run: ChaosRun) -> None:
    """Check that partitions have ended or report what they wait for, and settings are restored."""
    for each in run.runs:
        each.judge.check()
        outcome = each.folded
        assert facts(Run("run").fold(each.entries())) == facts(outcome)
        if not outcome.ended:
            now_s = each.clock.monotonic()
            assert each.at_rest, f"it has not ended after {now_s:.0f} s, and is not idle"
            if not each.turned_away:
                _check_what_it_waits_for(each, outcome)
    run.check_settings()


def _check_what_it_waits_for(run: ChaosRun, outcome: Run) -> None:
    """Check that an idle run is idle for a reason: nothing that could proceed stands still.

    All machines are up again by then, and an operator has lifted every pause.
    """
    controller, pauses = run.cluster.controller, outcome.pauses
    asked = {PauseOrigin.FAILURE} if outcome.options.stop_on_failure else set()
    paused = {*pauses.whole} - asked or pauses.topics or pauses.partitions
    assert not paused, f"what an operator has lifted is paused: {pauses}"
    left = [track for track in outcome.tracks.values() if not track.state.ended]
    assert left, f"all is over, and it does not end: its throttle is {outcome.throttled.ours}"
    assert not outcome.gate.shut or run.gated_for_good, f"a gate is shut: {outcome.gate.reason}"
    for track in left:
        if track.step is not None:
            known = controller.get(track.tp)
            assert track.reason, f"{track.tp} is in flight without a reason: {known}"
    assert not run.idle, f"stands still: {run.idle}"
