"""A view on a run that has ended, while another run of the cluster lives or waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.tui.screens.watch.screen import WatchScreen
from support.views.running import (
    NAME,
    RunWatched,
    a_new_run,
    a_quiet_cluster,
    moved,
    watching_run,
)
from support.views.watching import LARGE, SMALL

THERE = (7, 8, 9)


@asynccontextmanager
async def one_ended_and_another_lives(
    folder: Path, size: tuple[int, int] = LARGE
) -> AsyncIterator[RunWatched]:
    """Show a run that has ended; another moves one of its partitions, and one of its own."""
    cluster = a_quiet_cluster("a-0", "b-0")
    async with watching_run(cluster, folder, moved("a-0"), Limits(), size=size) as watch:
        await watch.pass_until("ENDED")
        targets = moved("a-0", "b-0", target=THERE)
        await watch.engines.start(a_new_run(targets, Limits(partitions=2, replicas=1), "night"))
        for _ in range(7):
            await watch.see()
        await watch.say("night")
        yield watch


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_line_names_the_run_that_lives_while_the_shown_one_has_ended(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with one_ended_and_another_lives(tmp_path, size) as watch:
        assert watch.app.attached is not None
        assert watch.app.attached.name == NAME
        line = watch.line("▶ now:")
        assert "run night RUNNING 0/2" in line
        assert line.rstrip().endswith("r attaches")
        assert f"{NAME} ENDED" in watch.text


async def test_rows_in_flight_show_the_state_in_the_run_that_moves_them(tmp_path: Path) -> None:
    async with one_ended_and_another_lives(tmp_path) as watch:
        assert "moving" in watch.row("a-0")
        assert "run night" in watch.row("a-0")
        await watch.do(*map(layout.Kill, THERE))
        await watch.pass_until("2 STALLED of run night (r)", most_s=60)
        assert "STALLED" in watch.row("a-0")
        assert "run night: broker 7 is down" in watch.row("a-0")
        assert "run night: broker 7 is down" in watch.row("b-0")  # which the ended run never had


@pytest.mark.parametrize("key", ["p", "P", "t", "l", "c"])
async def test_keys_of_a_run_that_has_ended_point_to_the_one_that_lives(
    tmp_path: Path, key: str
) -> None:
    async with one_ended_and_another_lives(tmp_path) as watch:
        await watch.press(key)
        assert isinstance(watch.app.screen, WatchScreen)
        words = "Run drain-3 has ended; run night is running. Press r, and ↵ to attach the view."
        assert words in watch.text


async def test_the_run_that_lives_is_one_key_away_and_then_takes_the_keys(tmp_path: Path) -> None:
    async with one_ended_and_another_lives(tmp_path) as watch:
        await watch.press("r")
        await watch.say("engine: process")
        await watch.press("home", "enter")
        await watch.until(lambda: watch.app.attached and watch.app.attached.name == "night")
        await watch.see()
        assert "▶ now:" not in watch.text
        await watch.press("p")
        assert "Pause run night?" in watch.text


async def test_a_run_that_waits_for_resume_is_named_too(tmp_path: Path) -> None:
    async with one_ended_and_another_lives(tmp_path) as watch:
        await watch.engines.aclose()
        await watch.pass_until("run night WAITING FOR RESUME")
        await watch.press("p")
        assert "run night waits for resume. Press r" in watch.text
        await watch.pass_time(5.0)
        assert "run night" in watch.row("a-0")


async def test_the_line_goes_with_the_last_run_that_has_not_ended(tmp_path: Path) -> None:
    async with one_ended_and_another_lives(tmp_path) as watch:
        for _ in range(60):
            await watch.see()
        assert "▶ now:" not in watch.text
        assert "night" not in watch.row("a-0")
        assert "✓ drain-3 ENDED" in watch.text
