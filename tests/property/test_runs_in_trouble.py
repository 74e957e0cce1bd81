"""Fault schedules: whatever happens to a cluster, a run keeps its rules and ends correctly."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path

import pytest

from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.limits import SHAPES, Mode
from support.rule_book import drops_below
from support.runs.engine_runs import ten_seeds
from support.runs.troubled import TROUBLES, TroubledRun, offline_reason
from support.runs.witnessed import facts

SEEDS = range(10)


def _run_checked(seed: int, folder: Path, *, killed: bool = False) -> None:
    run = TroubledRun(seed, folder, killed=killed, urgent_first=seed % 2 == 1)
    try:
        outcome = asyncio.run(run.to_its_end())
        run.check_requests(meddled=run.foreign())
        _check_end(run, outcome)
    except Exception as error:
        error.add_note(f"seed {seed}, killed at {run.reaper.where}, limits {run.limits}")
        for due in run.acts:
            error.add_note(str(due))
        raise


def _check_end(run: TroubledRun, outcome: Run) -> None:
    """Check that each partition truly ended, or that the run has a true reason why not."""
    for track in outcome.tracks.values():
        known = run.cluster.controller.get(track.tp)
        match track.state:
            case State.DONE:
                if track.tp not in run.foreign() and track.tp.topic not in run.deleted():
                    assert known is not None
                    assert known.replicas == track.planned.target
            case State.TOPIC_GONE:
                assert track.tp.topic in run.deleted()
            case State.CHANGED_ELSEWHERE:
                assert track.tp in run.foreign()
            case State.FAILED:
                assert "refused" in track.reason
            case _:
                assert _reason_holds(run, outcome, track), track
    if not outcome.ended:
        assert outcome.left
    assert facts(Run("run").fold(run.entries())) == facts(outcome)
    _check_drops(run)


def _check_drops(run: TroubledRun) -> None:
    """Check against the controller's record that no request left too few replicas in sync."""
    for each in run.witness.alters:
        if each.target and each.before and each.after and not each.late:
            least = min(run.min_isr, len(run.targets[each.tp]))
            assert not drops_below(each.before.isr, each.after.isr, least), f"below min ISR: {each}"


def _reason_holds(run: TroubledRun, outcome: Run, track: Track) -> bool:
    """Return whether the reported reason truly keeps a partition from ending."""
    if PauseOrigin.FAILURE in outcome.pauses.whole:
        return True
    known, moving = run.cluster.controller.get(track.tp), run.cluster.controller.reassigning
    assert known is not None
    match track.state:
        case State.BLOCKED:
            return track.reason == offline_reason(known) and known.leader is None
        case State.FOREIGN:
            return track.tp in moving
        case State.QUEUED:
            full = bool(moving) and not outcome.tracks_in_flight  # what others add leaves no room
            return full or outcome.gate.shut
        case _:
            return False


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_in_trouble_keeps_its_rules_and_ends_correctly(seed: int, tmp_path: Path) -> None:
    _run_checked(seed, tmp_path)


def test_every_kind_of_trouble_and_of_limits_is_in_these_runs(tmp_path: Path) -> None:
    runs = [TroubledRun(seed, tmp_path) for seed in SEEDS]

    assert set().union(*(run.troubles for run in runs)) == TROUBLES
    assert {(run.limits.shape, run.limits.mode) for run in runs} == {*product(SHAPES, Mode)}


@pytest.mark.parametrize("seed", range(4))
def test_a_run_in_trouble_whose_engine_is_killed_ends_correctly(seed: int, tmp_path: Path) -> None:
    _run_checked(seed, tmp_path, killed=True)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(10, 330, 10))
def test_320_runs_in_trouble_keep_their_rules_and_end_right(first: int, tmp_path: Path) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(seed, folder)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(4, 114, 10))
def test_110_runs_in_trouble_whose_engines_are_killed_too_end_right(
    first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(seed, folder, killed=True)
