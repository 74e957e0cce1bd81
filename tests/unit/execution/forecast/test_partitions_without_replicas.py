"""A journal may have partitions without replicas: none of them is forecast, and nothing breaks."""

from __future__ import annotations

import pytest

from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.execution.time_left.simulate_rest import expected_situation
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Blocked, BlockReason
from ktui.pacing.steps import all_steps, next_step
from ktui.tui.run_view.rows import RunRows
from support.journals.scripted_runs import ScriptedRun

NONE: tuple[int, ...] = ()


def a_scripted_run(original: tuple[int, ...], target: tuple[int, ...]) -> ScriptedRun:
    return ScriptedRun(10**9, original=original, target=target)


def track_of(run: Run) -> Track:
    (track,) = run.tracks.values()
    return track


@pytest.mark.parametrize("target", [(4, 2, 3), NONE])
def test_a_partition_without_replicas_is_offline_and_no_step_is_forecast(
    target: tuple[int, ...],
) -> None:
    track = track_of(a_scripted_run(NONE, target).run)
    now = expected_situation(track)
    assert next_step(now, Limits()) == Blocked(BlockReason.PARTITION_OFFLINE)
    assert all_steps(now, Limits(replicas=1)) == []


@pytest.mark.parametrize("kind", [None, *CancelKind])
def test_a_partition_with_an_empty_target_takes_no_step(kind: CancelKind | None) -> None:
    track = track_of(a_scripted_run(NONE, NONE).run)
    track.replicas, track.sent, track.cancel = (1, 2), (1, 2), kind
    assert all_steps(expected_situation(track), Limits(replicas=1)) == []


@pytest.mark.parametrize("state", [State.QUEUED, State.READY])
def test_the_view_and_the_time_left_tolerate_partitions_without_replicas(state: State) -> None:
    scripted = a_scripted_run(NONE, (4, 2, 3))
    track_of(scripted.run).state = state
    scripted.pass_time(5)
    scripted.look()
    assert scripted.estimate.copied.left_s is None
    assert RunRows(scripted.run).steps_left(track_of(scripted.run)) == 0
