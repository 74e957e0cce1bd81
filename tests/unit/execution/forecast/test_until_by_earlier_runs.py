"""What --until expects of a run that has copied nothing yet is based on earlier runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from ktui.execution.run.events import PauseOrigin, StepBegun
from ktui.insights.prior import Prior, RateCurve, Spread
from ktui.pacing.limits import Limits
from ktui.simulated.clock import FIRST_MOMENT
from support.runs.engine_runs import OWNER
from support.runs.stories import Story

MB = 1_000_000
RF3 = (1, 2, 3)
FIVE_GB = {"messages": 5_000_000, "copied_s": 1_000_000.0}


def earlier(bytes_s: float) -> Prior:
    rate = Spread(bytes_s, bytes_s, bytes_s, count=10)
    return Prior(rate, 2.0, RateCurve(most_bytes_s=bytes_s, half_at=0.0, most_at_once=1), runs=2)


@pytest.mark.parametrize(
    ("prior", "begins"),
    [(None, True), (earlier(60.0 * MB), True), (earlier(10.0 * MB), False)],
    ids=["50 MB/s are assumed", "60 MB/s were copied", "10 MB/s were copied"],
)
def test_a_step_that_earlier_runs_would_not_have_ended_in_time_is_not_begun(
    tmp_path: Path, prior: Prior | None, *, begins: bool
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))}, Limits(replicas=1), FIVE_GB)
    story.prior = prior

    run = story.played_by(
        msgspec.structs.replace(OWNER, until=FIRST_MOMENT + timedelta(seconds=200))
    )

    assert any(isinstance(event, StepBegun) for event in story.events) == begins
    assert run.ended == begins
    assert (PauseOrigin.UNTIL in run.pauses.whole) == (not begins)
