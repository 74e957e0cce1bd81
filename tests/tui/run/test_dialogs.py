from __future__ import annotations

from pathlib import Path

import pytest

from ktui.tui.screens.dialog import Dialog
from ktui.tui.screens.watch.screen import WatchScreen
from support.simulated.moving_clusters import move
from support.views.cancel_dialog import asked, open_dialog
from support.views.running import RunWatched, a_quiet_cluster, moved, watching_run
from support.views.watching import LARGE, MIDDLE, SMALL

NAMES = ("a-0", "a-1", "b-0")


def place_of(watch: RunWatched, words: str) -> tuple[int, int]:
    """Return where some words stand on the screen."""
    found = [(line.find(words), y) for y, line in enumerate(watch.lines) if words in line]
    return found[-1]


async def test_the_view_below_a_dialog_goes_on_and_shows_that_the_cluster_is_lost(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=LARGE) as watch:
        await watch.press("l")
        before = watch.row("a-0")
        await watch.pass_time(5)
        assert watch.row("a-0") != before
        await watch.lose()
        await watch.pass_time(3)
        for key in ("l", "t", "c"):
            await watch.press("escape", key)
            assert isinstance(watch.app.screen, Dialog)
            for size in (SMALL, MIDDLE, LARGE):
                await watch.resize(size)
                assert "does not answer, last" in watch.lines[1]


async def test_a_dialog_shows_its_title_and_keys_on_its_border_and_a_click_presses_them(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.press("p")
        assert "╭─ Pause run drain-3? ──" in watch.text
        await watch.pilot.click(offset=place_of(watch, "n, esc no"))
        assert isinstance(watch.app.screen, WatchScreen)
        assert asked(watch) == []


async def test_what_is_reported_meanwhile_stands_in_a_dialog_that_covers_the_footer(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=SMALL) as watch:
        await open_dialog(watch)
        watch.app.notify("something happened", severity="warning")
        await watch.pilot.pause()
        assert "something happened" in watch.dialog_line("something")
        await watch.press("down")
        assert not any("something" in line for line in watch.dialog)


async def test_keys_that_are_letters_are_typed_into_the_runs_name(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=SMALL) as watch:
        await open_dialog(watch, "up", "right", "y")
        assert "Type the run's name to roll back everything" in watch.text
        await watch.press("y", "n", "q", "O", "down", "up")
        assert "● everything in the run (3 partitions)" in watch.text
        assert "1 in flight is cancelled" in watch.text  # what is decided on stays in sight
        await watch.press("enter")
        assert "! Type drain-3 to confirm" in watch.text
        await watch.press("escape")
        assert "Press y to roll back everything" in watch.text
        await watch.press("escape")
        assert isinstance(watch.app.screen, WatchScreen)
        assert asked(watch) == []


@pytest.mark.parametrize("key", ["l", "t"])
async def test_a_dialog_higher_than_the_terminal_scrolls(tmp_path: Path, key: str) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), throttle="20MB") as watch:
        await watch.press(key)
        await watch.resize((60, 12))
        last = "A field that is empty stays" if key == "l" else "Enter puts it in force"
        assert last not in " ".join(" ".join(watch.dialog).split())
        await watch.press("pagedown", "pagedown", "pagedown")
        assert last in " ".join(" ".join(watch.dialog).split())


async def test_a_title_longer_than_the_border_stands_inside_the_box(tmp_path: Path) -> None:
    name = f"{'orders.' * 12}v1-0"
    cluster = a_quiet_cluster(name, "a-0", messages=50_000)
    async with watching_run(cluster, tmp_path, moved("a-0"), size=SMALL) as watch:
        await watch.do(move(name, 4, 2, 3))
        await watch.press("v")
        while watch.cursor != name:
            await watch.press("down")
        await watch.press("X")
        assert name in "".join("".join(watch.dialog).split())
