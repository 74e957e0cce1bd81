"""A run of the pipeline says at which of its steps it is, and about how long the rest takes."""

from __future__ import annotations

from itertools import count

import pytest

from ktui.pipeline.run.recorded_tables import CountedSteps

STEPS = (
    "decoding 3 segments", "lines", "samples", "polls and run events",
    "states", "moves", "spans", "batches", "runs", "rates", "brokers", "intakes",
)  # fmt: skip


@pytest.mark.parametrize(("insights", "of"), [(False, 12), (True, 16)])
def test_each_step_is_told_with_its_number_of_all_that_this_run_has(
    *, insights: bool, of: int
) -> None:
    told: list[str] = []
    steps = CountedSteps(told.append, insights=insights, now=lambda: 0.0)

    for step in STEPS:
        steps(step)

    assert told == [f"{place} of {of}: {step}" for place, step in enumerate(STEPS, 1)]


def test_the_time_left_follows_from_the_time_taken_once_a_fifth_is_done() -> None:
    seconds = count(0, 10)
    told: list[str] = []
    steps = CountedSteps(told.append, insights=False, now=lambda: float(next(seconds)))

    for step in STEPS[:5]:
        steps(step)

    assert "left" not in told[0]
    assert told[4] == "5 of 12: states, about 24 s left"
