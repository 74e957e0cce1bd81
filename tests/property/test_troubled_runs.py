"""Fault schedules: whatever happens to a run, it keeps its rules and ends correctly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.options import OnForeignThrottle
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.pacing.limits import SHAPES, Mode
from support.rule_book import drops_below
from support.runs.engine_runs import ten_seeds
from support.runs.throttled import settings_in
from support.runs.troubled import (
    TROUBLES,
    CalledOffTrouble,
    ThrottledAndCalledOff,
    ThrottledTrouble,
    TroubledRun,
    offline_reason,
)
from support.runs.witnessed import facts

SEEDS = range(10)
CANCELLED_SEEDS = range(12)
NO_THROTTLE = "its throttle cannot be set: "
FOREIGN_RATE = 171
"""In the run of this seed, somebody else's rate on a broker keeps a partition from beginning."""


def _run_checked(run: TroubledRun) -> None:
    """Execute a run to its end, and check that end by what kind of run it is."""
    once_more = isinstance(run, CalledOffTrouble | ThrottledTrouble)
    try:
        outcome = asyncio.run(run.resumed_once() if once_more else run.to_its_end())
        run.check_requests(meddled=run.foreign())
        assert facts(Run("run").fold(run.entries())) == facts(outcome)
        if isinstance(run, ThrottledTrouble):
            run.check_settings(outcome)
        if isinstance(run, CalledOffTrouble):
            run.check_called_off(outcome)
            for track in outcome.tracks.values():
                assert track.state.ended or _reason_holds(run, outcome, track), track
        elif not once_more:
            _check_end(run, outcome)
    except Exception as error:
        error.add_note(f"killed at {run.reaper.where}, limits {run.limits}")
        error.add_note(f"options {run.options}, commands {run.commands}")
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
    assert outcome.ended or outcome.left
    for each in run.witness.alters:  # by the controller's record
        if each.target and each.before and each.after and not each.late:
            least = min(run.min_isr, len(run.targets[each.tp]))
            assert not drops_below(each.before.isr, each.after.isr, least), f"below min ISR: {each}"


def _reason_holds(run: TroubledRun, outcome: Run, track: Track) -> bool:
    """Return whether the reported reason truly keeps a partition from ending."""
    cancelled = isinstance(run, CalledOffTrouble)
    if outcome.pauses.stops(track.tp) if cancelled else PauseOrigin.FAILURE in outcome.pauses.whole:
        return True
    known, moving = run.cluster.controller.get(track.tp), run.cluster.controller.reassigning
    assert known is not None
    match track.state:
        case State.BLOCKED if cancelled and track.reason.startswith(NO_THROTTLE):
            return _has_foreign_rate(run, outcome, track)
        case State.BLOCKED | State.REFUSED:
            offline = track.reason == offline_reason(known) and known.leader is None
            return offline and (cancelled or track.state is State.BLOCKED)
        case State.FOREIGN:
            return track.tp in moving
        case State.QUEUED | State.ROLLING_BACK | State.STOPPING:
            full = bool(moving) and not outcome.tracks_in_flight  # what others add leaves no room
            return full or outcome.gate.shut
        case _:
            return False


def _has_foreign_rate(run: TroubledRun, outcome: Run, track: Track) -> bool:
    """Return whether somebody else's rate stands on the broker that the reason names."""
    held = outcome.options.on_foreign_throttle is OnForeignThrottle.HOLD
    return held and any(
        f"someone else set {name} of broker {resource.name} to {value}." in track.reason
        for resource, settings in settings_in(run.cluster).items()
        for name, value in settings.items()
    )


def _troubled(seed: int, folder: Path, *, killed: bool = False) -> TroubledRun:
    return TroubledRun(seed, folder, killed=killed, urgent_first=seed % 2 == 1)


def _throttled_and_cancelled(seed: int, folder: Path) -> TroubledRun:
    return ThrottledAndCalledOff(seed, folder, killed=seed % 2 == 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_in_trouble_keeps_its_rules_and_ends_correctly(seed: int, tmp_path: Path) -> None:
    _run_checked(_troubled(seed, tmp_path))


@pytest.mark.parametrize("seed", range(4))
def test_a_run_in_trouble_whose_engine_is_killed_ends_correctly(seed: int, tmp_path: Path) -> None:
    _run_checked(_troubled(seed, tmp_path, killed=True))


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_throttles_keep_their_rules_in_trouble_and_none_is_left_behind(
    seed: int, tmp_path: Path, *, killed: bool
) -> None:
    _run_checked(ThrottledTrouble(seed, tmp_path, killed=killed))


@pytest.mark.parametrize("seed", CANCELLED_SEEDS)
def test_cancels_in_trouble_end_correctly(seed: int, tmp_path: Path) -> None:
    _run_checked(CalledOffTrouble(seed, tmp_path))


@pytest.mark.parametrize("seed", range(8))
def test_cancels_in_trouble_end_correctly_when_the_engine_is_killed(
    seed: int, tmp_path: Path
) -> None:
    _run_checked(CalledOffTrouble(seed, tmp_path, killed=True))


@pytest.mark.parametrize("seed", [*range(8), FOREIGN_RATE])
def test_cancels_in_trouble_leave_no_throttle_behind(seed: int, tmp_path: Path) -> None:
    _run_checked(_throttled_and_cancelled(seed, tmp_path))


def test_every_kind_of_trouble_and_of_limits_is_in_these_runs(tmp_path: Path) -> None:
    runs = [TroubledRun(seed, tmp_path) for seed in SEEDS]

    assert set().union(*(run.troubles for run in runs)) == TROUBLES
    assert {(run.limits.shape, run.limits.mode) for run in runs} == {*product(SHAPES, Mode)}


def test_every_kind_of_trouble_and_of_cancel_is_in_these_runs(tmp_path: Path) -> None:
    runs = [CalledOffTrouble(seed, tmp_path) for seed in CANCELLED_SEEDS]

    assert set().union(*(run.troubles for run in runs)) == TROUBLES
    commands = [command for run in runs for _, command in run.commands]
    cancels = [command for command in commands if isinstance(command, CancelMoves)]
    assert {each.kind for each in cancels} == {*CancelKind}
    scopes = {(bool(each.topics), bool(each.partitions)) for each in cancels}
    assert scopes == {(False, False), (True, False), (False, True)}


MANY = {
    "in trouble": (_troubled, range(10, 330, 10)),
    "killed": (partial(_troubled, killed=True), range(4, 114, 10)),
    "throttled": (ThrottledTrouble, range(4, 214, 10)),
    "throttled and killed": (partial(ThrottledTrouble, killed=True), range(4, 214, 10)),
    "cancelled": (CalledOffTrouble, range(12, 362, 10)),
    "cancelled and killed": (partial(CalledOffTrouble, killed=True), range(8, 228, 10)),
    "throttled and cancelled": (_throttled_and_cancelled, range(8, 328, 10)),
}
"""More seeds, by tens, of which each value is the first."""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("make", "first"),
    [
        pytest.param(make, first, id=f"{kind} from {first}")
        for kind, (make, firsts) in MANY.items()
        for first in firsts
    ],
)
def test_more_than_a_thousand_runs_in_trouble_keep_their_rules_and_end_correctly(
    make: Callable[[int, Path], TroubledRun], first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(make(seed, folder))
