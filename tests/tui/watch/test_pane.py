from __future__ import annotations

from pathlib import Path

from textual.content import Content

from ktui.tui.widgets.lines import Lines
from support.simulated.moving_clusters import a_cluster, tp
from support.views.running import a_quiet_cluster, moved, watching_run
from support.views.watching import LARGE, SMALL, watching


async def test_a_wide_screen_shows_the_detail_of_the_partition_under_the_cursor() -> None:
    def lanes() -> list[str]:
        return [line.split("│")[1] for line in watch.lines if "│" in line]

    async with watching(a_cluster(moving=["a-0", "a-1"]), LARGE) as watch:
        await watch.press("down")
        assert watch.cursor in watch.line("┬─")
        assert any("adding" in line for line in lanes())
        before = watch.cursor
        await watch.press("up")
        assert watch.cursor != before
        assert watch.cursor in watch.line("┬─")
        # the full detail is still a key away, and a narrow screen has the list alone
        await watch.press("enter")
        assert type(watch.app.screen).__name__ == "DetailScreen"
        await watch.press("escape")
        await watch.resize(SMALL)
        assert "┬─" not in watch.text


async def test_polls_cover_the_partition_in_the_pane_only_while_it_is_shown(tmp_path: Path) -> None:
    names = ["a-0", "a-1", "a-2"]
    async with watching_run(a_quiet_cluster(*names), tmp_path, moved(*names), size=LARGE) as watch:
        await watch.press("end")
        await watch.see()
        assert tp("a-2") in watch.looks.interests[-1].partitions
        await watch.resize(SMALL)
        await watch.see()
        assert tp("a-2") not in watch.looks.interests[-1].partitions


async def test_what_no_longer_fits_the_pane_is_wrapped() -> None:
    async with watching(a_cluster(moving=["a-0"]), LARGE) as watch:
        long = [Content("one " * 60), Content("two")]
        lines = watch.app.screen.query_one(Lines)
        lines.show(long)
        await watch.pilot.pause()
        assert watch.text.count("one") == 60
        assert "two" in watch.text
