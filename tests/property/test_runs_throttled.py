"""Throttles in runs in trouble: nothing goes unthrottled, and no throttle of ours stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.cluster.ports import ConfigOp
from ktui.execution.run.run import Run
from ktui.pacing.limits import SHAPES, Limits, Shape
from support.runs.engine_runs import ten_seeds
from support.runs.throttled import TWO, ThrottledStory, change_list, set_rate
from support.runs.troubled import ThrottledTrouble
from support.runs.witnessed import Reaper, facts


def _run_checked(seed: int, folder: Path, *, killed: bool = False) -> None:
    run = ThrottledTrouble(seed, folder, killed=killed)
    try:
        outcome = asyncio.run(run.resumed_once())
        run.check_requests(meddled=run.foreign())
        run.check_settings(outcome)
        assert facts(Run("run").fold(run.entries())) == facts(outcome)
    except Exception as error:
        error.add_note(f"seed {seed}, killed at {run.reaper.where}, limits {run.limits}")
        error.add_note(f"options {run.options}, commands {run.commands}")
        for due in run.acts:
            error.add_note(str(due))
        raise


@pytest.mark.parametrize("seed", range(4))
def test_throttles_keep_their_rules_in_trouble_and_none_is_left_behind(
    seed: int, tmp_path: Path
) -> None:
    _run_checked(seed, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_throttles_keep_their_rules_when_the_engine_is_killed(seed: int, tmp_path: Path) -> None:
    _run_checked(seed, tmp_path, killed=True)


def _killed_at(instant: int, folder: Path, limits: Limits) -> Reaper:
    """Kill a run at one of its instants, and at another one after that, and resume it."""
    folder.mkdir()
    story = ThrottledStory(folder, TWO, limits=limits, throttle_leaders=instant % 2 == 0)
    story.cluster.configure([set_rate(4, 3_000_000), change_list(ConfigOp.SET, "0:9")])
    story.reaper.at = frozenset({instant, instant + 7} - {0, 7})
    try:
        story.to_the_end()
        story.assert_left_as_found()
    except Exception as error:
        error.add_note(f"killed at {story.reaper.where}")
        raise
    return story.reaper


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_throttled_run_killed_anywhere_leaves_no_throttle_behind(
    partitions: int, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, partitions=partitions)
    instants = _killed_at(0, tmp_path / "0", limits).count
    for instant in range(partitions, instants + 1, 20):
        _killed_at(instant, tmp_path / str(instant), limits)


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
def test_a_throttled_run_killed_at_any_instant_leaves_no_throttle_behind(
    shape: Shape, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, partitions=2, shape=shape)
    for instant in range(1, _killed_at(0, tmp_path / "0", limits).count + 1):
        _killed_at(instant, tmp_path / str(instant), limits)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(4, 214, 10))
def test_throttles_of_210_runs_keep_their_rules_in_trouble(first: int, tmp_path: Path) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(seed, folder)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(4, 214, 10))
def test_throttles_of_210_runs_whose_engines_are_killed_keep_their_rules(
    first: int, tmp_path: Path
) -> None:
    for seed, folder in ten_seeds(first, tmp_path):
        _run_checked(seed, folder, killed=True)
