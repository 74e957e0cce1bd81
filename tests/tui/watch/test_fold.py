from __future__ import annotations

from pathlib import Path

from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.simulated.moving_clusters import wait
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
        assert "partitions 16" in watch.text
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
        await watch.pilot.click("PartitionList", offset=(8, 3))
        await watch.pilot.pause()
        assert len(watch.rows) == 16


async def test_the_cursor_goes_to_folded_lines_and_opens_and_closes_them(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES), TWO, size=SMALL) as watch:
        # nobody has moved the cursor: it stays on the first row
        assert watch.cursor == "a-0"
        await watch.press("down", "down")
        assert watch.line("queued 14").startswith("▌ ▸")
        assert watch.partitions.cursor is None
        assert "↵ unfold" in watch.lines[-1]
        # the cursor goes to the first of the rows, and with them it comes back
        await watch.press("enter")
        assert watch.cursor == "a-2"
        assert "↵ detail" in watch.lines[-1]
        assert len(watch.rows) == 16
        await watch.press("down", "left")
        assert watch.line("queued 14").startswith("▌ ▸")
        await watch.see()
        assert watch.line("queued 14").startswith("▌ ▸")
        await watch.press("right", "left", "up")
        assert watch.cursor == "a-1"
        await watch.press("G")
        assert watch.line("queued 14").startswith("▌ ▸")
        # a row that is not folded stays when the others go, and left does nothing on it
        await watch.press("home", "left", "o")
        assert watch.cursor == "a-0"


async def test_partitions_that_a_dead_broker_blocks_are_one_line_that_says_so(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES)
    cluster.do(layout.Kill(9))
    wait(cluster, 30.0)  # longer than a broker session takes to expire
    plan = {**moved(*NAMES[:13], target=(9, 2, 3)), **moved(*NAMES[13:])}
    async with watching_run(cluster, tmp_path, plan, TWO, size=SMALL) as watch:
        await watch.pass_until("▸ blocked 13 · broker 9 of its target is down")
        assert not any("blocked" in watch.row(name) for name in watch.rows)
        # the cursor opens the line, and closes it again
        await watch.press("G", "G", "enter")
        assert sum("blocked" in watch.row(name) for name in watch.rows) == 13
        await watch.press("left")
        assert "▸ blocked 13" in watch.text
        # the line goes as soon as they can go on
        await watch.do(layout.Start(9))
        await watch.pass_until("done 1")
        assert "▸ blocked" not in watch.text


async def test_what_is_done_is_folded_while_the_run_goes_on(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=500)
    async with watching_run(cluster, tmp_path, moved(*NAMES), TWO, size=SMALL) as watch:
        await watch.pass_until("✓ done 8")
        assert not any("done" in watch.row(name) for name in watch.rows)
        await watch.pass_until("ENDED")
        assert len(watch.rows) == len(NAMES)
