from __future__ import annotations

from pathlib import Path

from ktui.execution.journal.commands import SetLimits
from ktui.execution.journal.journal import Journal
from ktui.pacing.limits import Limits
from ktui.simulated.clock import VirtualClock
from ktui.tui.screens.run.change_screen import LimitsScreen
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.views.cancel_dialog import asked
from support.views.running import RunWatched, a_quiet_cluster, moved, watching_run
from support.views.watching import SMALL

NAMES = ("a-0", "a-1", "a-2")


async def change_limits(watch: RunWatched, partitions: str) -> None:
    """Change the limit P in the dialog, and wait for the answer."""
    await watch.press("l", "down")
    await watch.type(partitions)
    await watch.press("enter")
    await watch.pass_until("in force: they bind")
    await watch.press("escape")
    await watch.see()


def limits_of(watch: RunWatched) -> Limits:
    assert watch.app.attached is not None
    return watch.app.attached.run.limits


async def test_an_undo_shows_what_it_puts_back_and_enter_does_it_and_a_second_one_undoes_that(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=100_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=SMALL) as watch:
        await change_limits(watch, "3")
        for words, after in (("P 3 -> 1", 1), ("P 1 -> 3", 3)):
            await watch.press("U")
            assert isinstance(watch.app.screen, LimitsScreen)
            assert "Undoes your change of 00:" in watch.text
            assert words in " ".join(" ".join(watch.dialog).split())
            assert asked(watch) == []  # nothing is asked for before enter
            await watch.press("enter")
            await watch.pass_until("in force: they bind")
            assert limits_of(watch).partitions == after
            await watch.press("escape")


async def test_the_throttle_is_put_back_through_its_dialog_with_its_effects(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=100_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), throttle="20MB") as watch:
        await watch.press("t")
        assert "ctrl+z" not in watch.text  # nothing was changed yet
        await watch.type("30MB")
        await watch.press("enter")
        await watch.pass_until("30 MB/s into each broker, at once")
        await watch.see()
        await watch.type("5MB")
        await watch.press("ctrl+z")
        assert "20MB" in watch.dialog_line("new throttle")
        assert "Undoes your change" in watch.text
        assert "Lowered: for up to 11 s" in watch.text
        await watch.press("escape")
        await watch.type(":undo")
        await watch.press("enter")
        await watch.until(lambda: isinstance(watch.app.screen, ThrottleScreen))
        await watch.press("enter")
        await watch.pass_until("20 MB/s into each broker, at once")


async def test_a_change_by_somebody_else_is_not_undone_even_where_it_comes_after_the_preview(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=100_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.press("U")
        assert isinstance(watch.app.screen, WatchScreen)
        await watch.say("there is nothing to undo")
        await change_limits(watch, "3")
        await watch.press("U")
        with Journal.open(watch.run.journal, VirtualClock()) as journal:
            journal.ask(SetLimits({"partitions": 2}), "ada@ops1 (7)")
        await watch.press("enter")
        await watch.pass_until("the limits were changed meanwhile: P 3 -> 2")
        assert limits_of(watch).partitions == 2
        await watch.press("escape", "U")
        await watch.say("is not yours: ada@ops1 (7) made it")


async def test_a_read_only_view_undoes_nothing(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=100_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), write=False) as watch:
        await watch.press("U")
        assert isinstance(watch.app.screen, WatchScreen)
        await watch.say("This view is read-only")
