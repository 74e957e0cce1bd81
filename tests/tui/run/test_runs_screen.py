from __future__ import annotations

from pathlib import Path

from ktui.tui.screens.questions import ResumeOfferScreen
from ktui.tui.screens.runs import RunsScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.views.watching import (
    NAME,
    ONE_BY_ONE,
    SMALL,
    RunWatched,
    a_new_run,
    a_quiet_cluster,
    moved,
    watching_moves,
    watching_run,
    watching_runs,
)


async def test_the_runs_are_listed_with_their_progress() -> None:
    async with watching_moves("a-0", "b-0", size=SMALL) as watch:
        await watch.pass_until("done 1/2")
        await watch.press("r", say="engine: ")
        assert "RUNNING" in watch.line(NAME)
        assert "1/2" in watch.line(NAME)
        assert "drain-3.json" in watch.text
        # every column is whole, in a small terminal, too
        begun = watch.attached.run.started_at
        assert begun is not None
        assert f"{begun.astimezone():%Y-%m-%d %H:%M}" in watch.line("RUNNING  ")


async def test_the_attached_run_shows_how_close_it_is_to_the_least_possible_time() -> None:
    async with watching_moves("a-0", "b-0", messages=100_000, size=SMALL) as watch:
        await watch.pass_until("about ")
        await watch.press("r", say="with P 1")


async def test_enter_attaches_the_view_to_a_run() -> None:
    cluster = a_quiet_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0")) as watch:
        await watch.pass_until("ENDED")
        run = await watch.engines.start(a_new_run(moved("b-0"), ONE_BY_ONE, "other"))
        watch.app.call_later(watch.app.attach_to, run)
        await watch.until(lambda: watch.app.attached and watch.attached.name == "other")
        await watch.see()
        assert watch.rows == ["b-0"]
        await watch.press("r", say="ENDED")
        await watch.press("down", "enter")
        await watch.until(lambda: watch.app.attached and watch.attached.name == NAME)
        assert isinstance(watch.app.screen, WatchScreen)
        assert watch.rows == ["a-0"]


async def test_a_view_of_an_ended_run_announces_the_next_run_once() -> None:
    cluster = a_quiet_cluster("a-0", "b-0", messages=20_000)
    async with watching_run(cluster, moved("a-0")) as watch:
        await watch.pass_until("ENDED", most_s=3_000)
        await watch.engines.start(a_new_run(moved("b-0"), ONE_BY_ONE, "other"))
        await watch.pass_until("Run other of this cluster is live now")
        assert watch.attached.name == NAME
        watch.app.clear_notifications()
        await watch.pass_time(5)
        assert watch.text.count("Run other of this cluster") == 1, "its event"


async def test_an_empty_list_of_runs_shows_how_to_start_one() -> None:
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        await watch.press("r", say="There are no runs yet.")
        assert "ktui start PLAN" in watch.text
        # a folder that is no run is shown as such
        await watch.press("escape")
        (watch.state_dir.runs / "alien").mkdir(parents=True)
        await watch.press("r", say="UNREADABLE")
        await watch.press("enter")
        assert isinstance(watch.app.screen, RunsScreen)


async def abandon_run(watch: RunWatched) -> None:
    """Start a run and close its engine before the run ends."""
    await watch.engines.start(a_new_run(moved("a-0"), ONE_BY_ONE))
    await watch.see()
    await watch.engines.aclose()


async def test_the_view_attaches_to_a_live_run_at_startup(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", messages=500_000)
    async with watching_runs(cluster, folder=tmp_path) as first:
        await first.engines.start(a_new_run(moved("a-0"), ONE_BY_ONE))
        await first.see()
        async with watching_runs(cluster, folder=tmp_path) as watch:
            await watch.until(lambda: watch.app.attached is not None)
            await watch.see()
            assert "Attached to run drain-3." in watch.text
            assert "RUNNING" in watch.line("run drain-3  ")


async def test_an_unfinished_run_is_offered_at_startup_and_resumed(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, folder=tmp_path) as first:
        await abandon_run(first)
    async with watching_runs(cluster, folder=tmp_path) as watch:
        await watch.say("Run drain-3 waits to be resumed")
        assert "1 partition has more replicas than before and after" in watch.text
        assert "R resume now" in watch.text
        await watch.press("R")
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_until("ENDED")
        assert "done 1/1" in watch.text


async def test_an_unfinished_run_can_be_opened_or_left_alone(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, folder=tmp_path) as first:
        await abandon_run(first)
    async with watching_runs(cluster, folder=tmp_path) as watch:
        await watch.say("waits to be resumed")
        await watch.press("escape")
        await watch.pass_time(5)
        assert watch.app.attached is None
        assert not isinstance(watch.app.screen, ResumeOfferScreen)
    async with watching_runs(cluster, folder=tmp_path) as watch:
        await watch.say("waits to be resumed")
        await watch.press("enter", say="ENGINE DIED")


async def test_a_read_only_view_offers_to_open_the_run_and_names_the_resume_command(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, folder=tmp_path) as first:
        await abandon_run(first)
    async with watching_runs(cluster, write=False, folder=tmp_path) as watch:
        await watch.say("waits to be resumed")
        assert "ktui resume drain-3" in " ".join(watch.text.split())
        assert "R resume now" not in watch.text
        await watch.press("R")
        assert isinstance(watch.app.screen, ResumeOfferScreen)
        await watch.press("escape", "r", say="WAITING FOR RESUME")
        await watch.press("R")
        assert "ktui watch --write" in " ".join(watch.text.split())


async def test_a_run_is_resumed_from_the_list_of_runs() -> None:
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        await abandon_run(watch)
        await watch.press("r", say="WAITING FOR RESUME")
        await watch.press("R")
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_until("ENDED")


async def test_a_live_or_ended_run_is_not_resumed() -> None:
    async with watching_moves("a-0") as watch:
        await watch.press("r", say="engine: ")
        watch.app.clear_notifications()
        await watch.press("R", "R", "R")
        # the refusal is shown below the rows, once however often it is asked
        assert watch.text.count("is carried on already") == 1
        assert "! Run drain-3 is carried on already." in watch.text
        await watch.press("escape")
        await watch.pass_until("ENDED")
        await watch.press("r", say="ended at")
        await watch.press("R")
        assert "Run drain-3 has ended." in watch.text
