"""Throttles in runs in trouble: nothing goes unthrottled, and no throttle of ours stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.execution.run.run import Run
from support.runs.engine_runs import ten_seeds
from support.runs.troubled import ThrottledTrouble
from support.runs.witnessed import facts


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
