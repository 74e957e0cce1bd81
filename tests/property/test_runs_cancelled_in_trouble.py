"""Fault schedules: whatever happens to a run, cancelled partitions do not go on to their target."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.options import OnForeignThrottle
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from support.runs.engine_runs import ten_seeds
from support.runs.throttled import settings_in
from support.runs.troubled import TROUBLES, CalledOffTrouble, ThrottledAndCalledOff, offline_reason
from support.runs.witnessed import facts

SEEDS = range(12)
NO_THROTTLE = "its throttle cannot be set: "
FOREIGN_RATE = 171
"""In the run of this seed, somebody else's rate on a broker keeps a partition from beginning."""


def _run_checked(run: CalledOffTrouble) -> None:
    try:
        outcome = asyncio.run(run.resumed_once())
        run.check_requests(meddled=run.foreign())
        run.check_called_off(outcome)
        for track in outcome.tracks.values():
            assert track.state.ended or _reason_holds(run, outcome, track), track
        assert facts(Run("run").fold(run.entries())) == facts(outcome)
        if isinstance(run, ThrottledAndCalledOff):
            run.check_settings(outcome)
    except Exception as error:
        error.add_note(f"killed at {run.reaper.where}, limits {run.limits}")
        error.add_note(f"options {run.options}, commands {run.commands}")
        for due in run.acts:
            error.add_note(str(due))
        raise


def _reason_holds(run: CalledOffTrouble, outcome: Run, track: Track) -> bool:
    """Return whether the reported reason truly keeps a partition from ending."""
    if outcome.pauses.stops(track.tp):
        return True
    known, moving = run.cluster.controller.get(track.tp), run.cluster.controller.reassigning
    assert known is not None
    match track.state:
        case State.BLOCKED if track.reason.startswith(NO_THROTTLE):
            return _has_foreign_rate(run, outcome, track)
        case State.BLOCKED | State.REFUSED:
            return track.reason == offline_reason(known) and known.leader is None
        case State.FOREIGN:
            return track.tp in moving
        case State.QUEUED | State.ROLLING_BACK | State.STOPPING:
            full = bool(moving) and not outcome.tracks_in_flight  # what others add leaves no room
            return full or outcome.gate.shut
        case _:
            return False


def _has_foreign_rate(run: CalledOffTrouble, outcome: Run, track: Track) -> bool:
    """Return whether somebody else's rate stands on the broker that the reason names."""
    held = outcome.options.on_foreign_throttle is OnForeignThrottle.HOLD
    return held and any(
        f"someone else set {name} of broker {resource.name} to {value}." in track.reason
        for resource, settings in settings_in(run.cluster).items()
        for name, value in settings.items()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_cancels_in_trouble_end_correctly(seed: int, tmp_path: Path) -> None:
    _run_checked(CalledOffTrouble(seed, tmp_path))


def test_every_kind_of_trouble_and_of_cancel_is_in_these_runs(tmp_path: Path) -> None:
    runs = [CalledOffTrouble(seed, tmp_path) for seed in SEEDS]

    assert set().union(*(run.troubles for run in runs)) == TROUBLES
    commands = [command for run in runs for _, command in run.commands]
    cancels = [command for command in commands if isinstance(command, CancelMoves)]
    assert {each.kind for each in cancels} == {*CancelKind}
    scopes = {(bool(each.topics), bool(each.partitions)) for each in cancels}
    assert scopes == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("seed", range(8))
def test_cancels_in_trouble_end_correctly_when_the_engine_is_killed(
    seed: int, tmp_path: Path
) -> None:
    _run_checked(CalledOffTrouble(seed, tmp_path, killed=True))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(12, 362, 10))
def test_cancels_in_350_troubled_runs_end_correctly(first: int, tmp_path: Path) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(CalledOffTrouble(seed, folder))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(8, 228, 10))
def test_cancels_in_220_runs_end_correctly_when_the_engine_is_killed_too(
    first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(CalledOffTrouble(seed, folder, killed=True))


@pytest.mark.parametrize("seed", [*range(8), FOREIGN_RATE])
def test_cancels_in_trouble_leave_no_throttle_behind(seed: int, tmp_path: Path) -> None:
    _run_checked(ThrottledAndCalledOff(seed, tmp_path, killed=seed % 2 == 0))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(8, 328, 10))
def test_no_throttle_remains_of_cancelled_partitions_in_320_runs(
    first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(ThrottledAndCalledOff(seed, folder, killed=seed % 2 == 0))
