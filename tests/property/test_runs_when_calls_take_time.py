"""Calls that take time: whatever changes while a run waits, no request it sends loses data."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.chaos.defects import DEFECTS, Defect, put_back
from support.chaos.run import ChaosRun
from support.chaos.soak import Tally, check_end, outcome_of, played

FOUND_BY_SEEDS = {
    "an alter by an old look": 14,
    "a request in a suspended broker": 40,
    "somebody else's rate taken over": 2,
    "somebody else's rate moved by a budget": 2,
}
"""Defects that seeds alone find, and within how many seeds."""


SEEDS = (46, 0, 54, 5, 4)
"""In these everything happens that can: each kind of fault strikes in one of them at least."""


def test_runs_whose_calls_take_time_keep_their_word_and_end_whatever_happens(
    tmp_path: Path,
) -> None:
    tally = Tally()
    for seed in SEEDS:
        run = _carried(seed, tmp_path / str(seed))
        print(run.words)  # noqa: T201 - what a seed really did is part of its result
        tally.add(outcome_of(seed, run))

    assert tally.never == []


def _carried(seed: int, folder: Path) -> ChaosRun:
    run = ChaosRun(seed, folder)
    try:
        asyncio.run(run.to_its_end())
        check_end(run)
    except BaseException as error:
        error.add_note(f"seed {seed}, {run.limits}: {run.words}")
        for due in run.acts:
            error.add_note(str(due))
        raise
    return run


@pytest.mark.soak
@pytest.mark.parametrize(
    "defect",
    [defect for defect in DEFECTS if defect.name in FOUND_BY_SEEDS],
    ids=lambda defect: defect.name,
)
def test_seeds_alone_find_a_reintroduced_defect(defect: Defect) -> None:
    with put_back(defect):
        assert any(played(seed).problem for seed in range(FOUND_BY_SEEDS[defect.name]))
