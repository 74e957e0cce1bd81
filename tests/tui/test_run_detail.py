from __future__ import annotations

from pathlib import Path

from ktui.tui.figures import as_duration, as_time
from support.moving_clusters import tp
from support.running import a_quiet_cluster, moved, watching_run


async def test_the_time_of_a_partition_of_a_run_is_that_of_all_its_steps(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.pass_until("step 2/4")
        assert watch.app.attached is not None
        rows = watch.app.attached.rows
        begun = rows.taken(tp("a-0"))[0].at
        await watch.press("enter")
        assert f"since {as_time(begun)}, for" in watch.line("under way")
        await watch.pass_until("moved ")
        over = rows.taken(tp("a-0"))[-1].over_at
        assert over is not None
        took = as_duration((over - begun).total_seconds())
        assert f"{as_time(begun)} to {as_time(over)}, {took}" in watch.line("moved ")
        assert "after earlier steps" in watch.line("The lanes begin at")


async def test_the_limits_of_a_read_only_view_are_covered_by_no_message(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0"), write=False) as watch:
        await watch.press("p", "p")
        assert "ktui watch --write" in " ".join(watch.text.split())
        await watch.press("l")
        assert watch.text.count("read-only") == 1
        assert "limits are changed in one that is opened with ktui watch --write" in watch.text
