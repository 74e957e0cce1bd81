from __future__ import annotations

from pathlib import Path

from support.views.running import a_quiet_cluster, moved, watching_run

NAMES = ("a-0", "a-1", "b-0")


async def test_space_marks_a_row_with_a_sign_and_unmarks_it_again(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await watch.press("down", "space", "down", "space")
        assert watch.line("a-1").startswith(" ◆a-1")
        assert watch.line("b-0").startswith("▌◆b-0")
        assert "2 marked" in watch.line("run ·")
        await watch.press("space")
        assert watch.line("b-0").startswith("▌ b-0")
        assert "1 marked" in watch.line("run ·")
        await watch.press("u")
        assert "◆" not in watch.text


async def test_marks_survive_sorting_and_filtering(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await watch.press("down", "space", "s", "S")
        assert watch.line("a-1").startswith("▌◆a-1")
        await watch.press("slash")
        await watch.type("b")
        await watch.press("enter")
        assert watch.rows == ["b-0"]
        assert "1 marked" in watch.line("run ·")
        await watch.press("escape")
        assert "◆a-1" in watch.line("a-1")


async def test_a_click_in_front_of_a_row_marks_it(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await watch.pilot.click("PartitionList", offset=(0, 1))
        assert watch.line("a-1").startswith("▌◆a-1")
