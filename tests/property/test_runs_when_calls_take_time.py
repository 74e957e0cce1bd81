"""Calls that take time: whatever changes while a run waits, no request it sends loses data."""

import asyncio
from itertools import product
from pathlib import Path

import pytest

from ktui.pacing.limits import SHAPES, Mode
from support.chaos.defects import DEFECTS, Defect, put_back
from support.chaos.run import ChaosRun
from support.chaos.soak import Tally, check_end, outcome_of, played
from support.runs.troubled import TROUBLES

FOUND_BY_SEEDS = {
    "an alter by an old look": 14,
    "a request in a suspended broker": 40,
    "somebody else's rate taken over": 6,
    "somebody else's rate moved by a budget": 3,
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


MORE_SEEDS = range(100, 116)


@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_whatever_happens_to_a_run_it_keeps_its_rules_and_ends_correctly(
    seed: int, tmp_path: Path
) -> None:
    _carried(seed, tmp_path, urgent_first=seed % 2 == 1)


def test_every_kind_of_trouble_and_of_limits_is_in_these_runs(tmp_path: Path) -> None:
    runs = [ChaosRun(seed, tmp_path / str(seed)) for seed in (*SEEDS, *MORE_SEEDS)]

    assert {type(due.act) for run in runs for due in run.acts} >= TROUBLES
    assert {(run.limits.shape, run.limits.mode) for run in runs} == {*product(SHAPES, Mode)}


def _carried(seed: int, folder: Path, *, urgent_first: bool = False) -> ChaosRun:
    run = ChaosRun(seed, folder, urgent_first=urgent_first)
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
