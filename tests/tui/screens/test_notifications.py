"""Notifications and insights."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from ktui.execution.host.state_dir import StateDir
from ktui.insights import NAME, publish_insights
from ktui.tui.screens.help import HelpScreen
from ktui.tui.screens.run.change_screen import LimitsScreen
from ktui.tui.screens.runs import InsightsScreen
from support.pipeline.report_facts import insights
from support.views.screens import SIZES, Host, screen_text
from support.views.watching import (
    LARGE,
    MIDDLE,
    SMALL,
    a_quiet_cluster,
    moved,
    watching_moves,
    watching_run,
    watching_runs,
)


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
async def test_notifications_cover_neither_rows_nor_keys_and_do_not_pile_up(
    size: tuple[int, int],
) -> None:
    names = [f"a-{n}" for n in range(40)]
    async with watching_moves(*names, write=False, size=size) as watch:
        before = [line for line in watch.lines if "queued" in line]
        await watch.press("p", "n", "p", "n")
        assert watch.text.count("ktui watch --write") == 1
        assert any("read-only" in line for line in watch.lines[-3:])
        assert [line for line in watch.lines if "queued" in line] == before
        assert all(key in watch.lines[-1] for key in ("↵ detail", "? help", "q quit"))


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
@pytest.mark.parametrize("length", [1, 8, 60])
async def test_the_keys_stay_and_can_be_clicked_however_long_a_notification_is(
    size: tuple[int, int], length: int
) -> None:
    async with watching_runs(a_quiet_cluster("a-0"), size=size) as watch:
        watch.app.notify("words " * length, severity="error")
        await watch.say("! words")
        await watch.until(lambda: "q quit" in watch.lines[-1])
        await watch.pilot.click(offset=(watch.lines[-1].index("? help"), size[1] - 1))
        await watch.until(lambda: isinstance(watch.app.screen, HelpScreen))


async def test_a_notification_makes_room_for_the_keys_after_a_while() -> None:
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        watch.app.notify("something happened", timeout=0.01)
        assert watch.app.notification is not None
        await watch.until(lambda: watch.app.notification is None)
        await watch.say("detail")
        assert "something happened" not in watch.text


async def test_notifications_appear_on_every_screen() -> None:
    async with watching_moves("a-0") as watch:
        await watch.press("l")
        assert isinstance(watch.app.screen, LimitsScreen)
        watch.app.notify("[bold]drain[/bold] has ended", title="as it is")
        await watch.say("as it is: [bold]drain[/bold] has ended")
        assert isinstance(watch.app.screen, LimitsScreen)


async def test_any_key_drops_a_notification_and_the_events_keep_it() -> None:
    async with watching_moves("a-0") as watch:
        watch.app.report_news("the theme mine.yaml cannot be read", "warning")
        await watch.say("the theme mine.yaml cannot be read")
        await watch.press("down")
        assert "mine.yaml" not in watch.text
        await watch.press("e")
        assert "the theme mine.yaml cannot be read" in watch.text


async def test_the_answer_to_a_key_is_shown_before_news_however_bad() -> None:
    async with watching_moves("a-0") as watch:
        watch.app.report_news("recording has stopped", "error")
        watch.app.notify("pause a-0: accepted")
        await watch.say("pause a-0: accepted")
        watch.app.report_news("another run is live", "error")
        await watch.say("pause a-0: accepted")
        assert "another run is live" not in watch.text


async def test_a_notification_too_long_for_one_line_wraps_and_is_shown_in_full() -> None:
    async with watching_runs(a_quiet_cluster("a-0"), size=SMALL) as watch:
        words = " ".join(f"word{n}" for n in range(20))
        watch.app.notify(words, severity="error")
        await watch.say("word19")
        assert words in " ".join(watch.text.split())


async def test_an_error_is_shown_before_a_notice() -> None:
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        watch.app.notify("it was refused", severity="error", timeout=0.2)
        watch.app.notify("another run is live")
        assert watch.app.notification is not None
        assert watch.app.notification.words == "it was refused"
        await watch.say("another run is live")


async def settled(pilot: Pilot[None], app: Host[InsightsScreen]) -> str:
    await pilot.pause()
    await app.workers.wait_for_complete()
    await pilot.pause()
    return screen_text(app)


def host(state: Path, cluster: str | None = "prod") -> Host[InsightsScreen]:
    return Host(InsightsScreen(StateDir(state), cluster), "dark")


@pytest.mark.parametrize("size", SIZES)
async def test_the_insights_of_the_cluster_are_shown(tmp_path: Path, size: tuple[int, int]) -> None:
    publish_insights(insights("other", "prod"), tmp_path)
    app = host(tmp_path)
    async with app.run_test(size=size) as pilot:
        text = await settled(pilot, app)
        assert "insights · of 3 runs, 72 moves, made 2026-11-21" in text
        assert "a replica is copied at 40 MB/s" in text
        assert "copying" in text.split("a step takes 2 s")[1][:160]
        await pilot.press("end")
        await pilot.pause()
        assert "recommended limits" in screen_text(app)


async def test_without_insights_the_screen_shows_how_to_derive_them(tmp_path: Path) -> None:
    app = host(tmp_path)
    async with app.run_test() as pilot:
        text = " ".join((await settled(pilot, app)).split())
        assert "No insights yet. Every run is recorded, and `ktui record` records" in text
        assert "Derive insights from the recordings: ktui pipeline run" in text


async def test_insights_of_another_cluster_are_not_shown(tmp_path: Path) -> None:
    publish_insights(insights("other"), tmp_path)
    for cluster in ("prod", None):
        app = host(tmp_path, cluster)
        async with app.run_test() as pilot:
            assert "Nothing is known of this cluster" in await settled(pilot, app)


async def test_an_unreadable_insights_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    app = host(tmp_path)
    async with app.run_test(size=(160, 30)) as pilot:
        assert "this is not an insights file" in await settled(pilot, app)


async def test_the_view_opens_the_insights_and_returns() -> None:
    cluster = a_quiet_cluster("orders-0")
    async with watching_runs(cluster) as watch:
        publish_insights(insights(cluster.spec.name), watch.state_dir.path)
        await watch.pilot.press("I")
        await watch.until(lambda: "a replica is copied at 40 MB/s" in watch.text)
        await watch.pilot.press("q")
        await watch.until(lambda: not isinstance(watch.app.screen, InsightsScreen))


async def test_a_run_marks_a_time_left_that_comes_from_earlier_runs(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("orders-0", "orders-1", messages=2_000_000, copied_s=10_000.0)
    publish_insights(insights(cluster.spec.name), tmp_path / "state")
    async with watching_run(cluster, moved("orders-0", "orders-1"), folder=tmp_path) as watch:
        await watch.pass_until("by 3 earlier runs", most_s=15)
        for _ in range(30):
            await watch.see()
        assert "by 3 earlier runs" not in watch.text
        assert "as measured" in watch.text
