"""Notifications appear in the footer, one at a time, and cover no row."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.tui.screens.run.change_screen import LimitsScreen
from support.views.running import a_quiet_cluster, moved, watching_run, watching_runs
from support.views.watching import LARGE, MIDDLE, SMALL


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
async def test_notifications_cover_no_row_and_do_not_pile_up(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    names = [f"a-{n}" for n in range(40)]
    cluster = a_quiet_cluster(*names)
    async with watching_run(cluster, tmp_path, moved(*names), write=False, size=size) as watch:
        before = [line for line in watch.lines if "queued" in line]
        await watch.press("p", "n", "p", "n")
        assert watch.text.count("ktui watch --write") == 1
        assert "read-only" in watch.lines[-1]
        assert [line for line in watch.lines if "queued" in line] == before
        assert "detail" not in watch.lines[-1]


async def test_a_notification_makes_room_for_the_keys_after_a_while(tmp_path: Path) -> None:
    async with watching_runs(a_quiet_cluster("a-0"), tmp_path) as watch:
        watch.app.notify("something happened", timeout=0.01)
        assert watch.app.notification is not None
        await watch.until(lambda: watch.app.notification is None)
        await watch.say("detail")
        assert "something happened" not in watch.text


async def test_notifications_appear_on_every_screen(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.press("l")
        assert isinstance(watch.app.screen, LimitsScreen)
        watch.app.notify("[bold]drain[/bold] has ended", title="as it is")
        await watch.say("as it is: [bold]drain[/bold] has ended")
        assert isinstance(watch.app.screen, LimitsScreen)


async def test_any_key_drops_a_notification_and_the_events_keep_it(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        watch.app.report_news("the theme mine.yaml cannot be read", "warning")
        await watch.say("the theme mine.yaml cannot be read")
        await watch.press("down")
        assert "mine.yaml" not in watch.text
        await watch.press("e")
        assert "the theme mine.yaml cannot be read" in watch.text


async def test_the_answer_to_a_key_is_shown_before_news_however_bad(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        watch.app.report_news("recording has stopped", "error")
        watch.app.notify("pause a-0: accepted")
        await watch.say("pause a-0: accepted")
        watch.app.report_news("another run is live", "error")
        await watch.say("pause a-0: accepted")
        assert "another run is live" not in watch.text


async def test_a_notification_too_long_for_one_line_wraps_and_is_shown_in_full(
    tmp_path: Path,
) -> None:
    async with watching_runs(a_quiet_cluster("a-0"), tmp_path, size=SMALL) as watch:
        words = " ".join(f"word{n}" for n in range(20))
        watch.app.notify(words, severity="error")
        await watch.say("word19")
        assert words in " ".join(watch.text.split())


async def test_an_error_is_shown_before_a_notice(tmp_path: Path) -> None:
    async with watching_runs(a_quiet_cluster("a-0"), tmp_path) as watch:
        watch.app.notify("it was refused", severity="error", timeout=0.2)
        watch.app.notify("another run is live")
        assert watch.app.notification is not None
        assert watch.app.notification.words == "it was refused"
        await watch.say("another run is live")
