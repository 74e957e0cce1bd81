"""A rehearsal in the background: the same result, and no process that outlives it."""

from __future__ import annotations

import asyncio
import multiprocessing

import pytest

from ktui.execution.host.launch import NewRun
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import default_limits
from ktui.planning.check.findings import Allowances
from ktui.rehearsal.twin import Pace
from ktui.rehearsal.twins import rehearse, rehearse_in_background
from ktui.simulated.clock import FIRST_MOMENT
from support.rehearsal.small_twins import ONTO_4, TWIN, rehearsal_of

WANTED = NewRun(
    plan=ONTO_4,
    name="moves",
    plan_name="moves.json",
    limits=default_limits({}),
    options=RunOptions(record=False),
    allowed=Allowances(replication_factor_change=True, below_min_isr=True),
)


async def test_a_plan_comes_to_the_same_as_in_the_foreground_and_each_twin_is_announced() -> None:
    finished: list[Pace] = []

    prepared, twins = await rehearse_in_background(
        WANTED, TWIN, start=FIRST_MOMENT, finished=finished.append
    )

    assert not prepared.preview.problems
    assert sorted(finished) == sorted(Pace)
    foreground = await asyncio.to_thread(
        lambda: rehearse(rehearsal_of(ONTO_4), TWIN, start=FIRST_MOMENT)
    )
    assert twins == foreground


async def test_a_cancelled_rehearsal_leaves_no_process() -> None:
    before = set(multiprocessing.active_children())
    rehearsing = asyncio.create_task(
        rehearse_in_background(WANTED, TWIN, start=FIRST_MOMENT, finished=lambda _pace: None)
    )
    await asyncio.sleep(0)  # it begins
    assert set(multiprocessing.active_children()) - before

    rehearsing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await rehearsing
    assert not set(multiprocessing.active_children()) - before
