"""A rehearsal's recording is replayed as any other, under a name that says it is simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.rehearsal.twins import RehearsedTwin, rehearse
from ktui.simulated.clock import FIRST_MOMENT
from support.rehearsal.small_twins import ONTO_4, TWIN, rehearsal_of
from support.views.replays import replaying


@pytest.fixture
def rehearsed(tmp_path: Path) -> RehearsedTwin:
    rehearsal = rehearsal_of(ONTO_4, "kill 5 at 50%")
    (usual,) = rehearse(rehearsal, TWIN.at(50e6), start=FIRST_MOMENT, record=tmp_path)
    return usual


async def test_a_rehearsal_is_replayed_with_its_run_and_what_broke_it(
    rehearsed: RehearsedTwin,
) -> None:
    assert rehearsed.recording is not None
    recording, ended_s = Path(rehearsed.recording), rehearsed.summary.time_s
    async with replaying(recording, at_s=ended_s / 4) as replay:
        assert "prod.yaml (simulated)   REPLAY" in replay.lines[0]
        await replay.until_told("run moves  RUNNING")
        await replay.surveyed()
        await replay.press("full_stop")
        await replay.until_told("broker 5: log dirs")  # it does not answer, and is not fenced yet
        await replay.press("full_stop")
        await replay.until_told("broker 5 down")
    async with replaying(recording, at_s=ended_s + 1) as replay:
        await replay.until_told("moves ENDED")
        assert "done 2/2" in replay.text
