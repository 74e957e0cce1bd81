"""Time in every call: whatever changes while a run waits, nothing it sends costs data."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.execution.run import Run
from ktui.execution.states import State
from support.chaos.run import ChaosRun
from support.runs_witnessed import facts


def _carried(seed: int, folder: Path) -> ChaosRun:
    run = ChaosRun(seed, folder)
    try:
        outcome = asyncio.run(run.to_its_end())
        _check_end(run, outcome)
    except BaseException as error:
        error.add_note(f"seed {seed}, at {run.clock.monotonic():.1f} s, {run.limits}")
        error.add_note(f"fired: {dict(run.faults.fired)}, commands: {run.commands_asked}")
        for due in run.acts:
            error.add_note(str(due))
        raise
    print(_told(seed, run))  # noqa: T201 - what a seed really did is part of its result
    return run


def _told(seed: int, run: ChaosRun) -> str:
    fired = {fault.value: n for fault, n in sorted(run.faults.fired.items()) if n}
    return (
        f"seed {seed}: {len(run.targets)} partitions, {run.looks} looks, "
        f"{run.clock.monotonic():.0f} s simulated, {run.faults.delays_s:.0f} s of delays up to "
        f"{run.faults.typical_s} s, {fired}, commands {run.commands_asked}, "
        f"requests {dict(run.judge.requests)}, {run.deaths} deaths, "
        f"changed between read and effect: {dict(run.judge.changed_since)}"
    )


def _check_end(run: ChaosRun, outcome: Run) -> None:
    """Every partition has ended, or says what it waits for; and every setting is as it was."""
    assert len(run.targets) >= 20
    for track in outcome.tracks.values():
        waits = track.state in {State.QUEUED, State.READY, State.ROLLING_BACK}
        assert track.state.ended or track.reason or waits or outcome.pauses.whole, track
    assert facts(Run("run").fold(run.entries())) == facts(outcome)
    run.check_settings(outcome)


@pytest.mark.parametrize("seed", range(20))
def test_a_run_whose_calls_take_time_keeps_its_word_and_ends(seed: int, tmp_path: Path) -> None:
    _carried(seed, tmp_path)
