"""A replay shows the promises of a run as they stood at the moment that is played."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.recordings.drained_recordings import MB, driven
from support.views.replays import replaying

SIZES = [90 * MB, 150 * MB, 120 * MB, 60 * MB, 180 * MB, 105 * MB]
WIDE = (200, 40)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that cannot keep its time, for its objective lets it go at 3.2 MB/s at most."""
    folder = tmp_path_factory.mktemp("driven")
    driven(folder, within_s=70, sizes=SIZES, name="driven")
    return folder / "driven"


async def test_a_replay_shows_a_promise_as_it_stood_at_the_moment_played(recording: Path) -> None:
    async with replaying(recording, WIDE, at_s=5.5) as replay:
        await replay.press("p")
        await replay.until_told("load<8 no figure")
        assert "throttle 1.0 MB/s into each broker" in replay.line("load<8")
        assert "kept" not in replay.line("load<8")

        await replay.press(*["right"] * 3)
        await replay.until_told("load<8 2 100% kept")
        assert "throttle 3.1 MB/s into each broker" in replay.line("load<8")

        await replay.press(*["right"] * 2)
        await replay.until_told("load<8 no figure 60% kept")
        assert "throttle 1.0 MB/s into each broker" in replay.line("load<8")
        assert "CANNOT BE DONE BY 00:01: 00:04 AT THE SOONEST" in replay.line("run driven")

        await replay.press(*["left"] * 2)
        await replay.until_told("load<8 2 100% kept")
