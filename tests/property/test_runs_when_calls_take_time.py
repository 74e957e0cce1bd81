"""Time in every call: whatever changes while a run waits, nothing it sends costs data."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.chaos.defects import DEFECTS, Defect, put_back
from support.chaos.ends import check_end
from support.chaos.run import ChaosRun
from support.chaos.soak import played

FOUND_BY_SEEDS = {"an alter by an old look": 14, "a request in a suspended broker": 40}
"""Defects that no story is needed for, and within how many seeds they are found."""


@pytest.mark.parametrize("seed", range(20))
def test_a_run_whose_calls_take_time_keeps_its_word_and_ends(seed: int, tmp_path: Path) -> None:
    run = ChaosRun(seed, tmp_path)
    try:
        asyncio.run(run.to_its_end())
        check_end(run)
    except BaseException as error:
        error.add_note(f"seed {seed}, {run.limits}: {run.words}")
        for due in run.acts:
            error.add_note(str(due))
        raise
    print(run.words)  # noqa: T201 - what a seed really did is part of its result


@pytest.mark.soak
@pytest.mark.parametrize(
    "defect",
    [defect for defect in DEFECTS if defect.name in FOUND_BY_SEEDS],
    ids=lambda defect: defect.name,
)
def test_seeds_alone_find_a_defect_that_is_put_back(defect: Defect) -> None:
    with put_back(defect):
        assert any(played(seed).problem for seed in range(FOUND_BY_SEEDS[defect.name]))
