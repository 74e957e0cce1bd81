from __future__ import annotations

from pathlib import Path

from ktui.pacing.limits import Limits
from support.views.running import a_quiet_cluster, moved, watching_run
from support.views.watching import SMALL

NAMES = [f"a-{n}" for n in range(16)]
TWO = Limits(replicas=1, partitions=2)


async def test_partitions_that_wait_are_one_line_until_the_operator_wants_their_rows(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES), TWO, size=SMALL) as watch:
        assert watch.rows == ["a-0", "a-1"]
        assert "16 partitions" in watch.text
        assert "▸ queued 14 · P 2 of 2 in use · next: a-2, a-3" in watch.text
        # the rows are a key away, and a filter finds them also while they are folded
        await watch.press("o")
        assert sorted(watch.rows) == sorted(NAMES)
        assert "▸ queued" not in watch.text
        await watch.press("o", "slash")
        await watch.type("state:queued")
        await watch.press("enter")
        assert len(watch.rows) == 14
        # one that is marked keeps its row
        await watch.press("space", "escape")
        assert watch.rows == ["a-0", "a-1", "a-2"]
        await watch.pilot.click("FoldLines")
        await watch.pilot.pause()
        assert len(watch.rows) == 16


async def test_what_is_done_is_folded_while_the_run_goes_on(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=500)
    async with watching_run(cluster, tmp_path, moved(*NAMES), TWO, size=SMALL) as watch:
        await watch.pass_until("✓ done 8")
        assert not any("done" in watch.row(name) for name in watch.rows)
        await watch.pass_until("ENDED")
        assert len(watch.rows) == len(NAMES)
