from __future__ import annotations

from pathlib import Path

from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.simulated.moving_clusters import move
from support.views.cancel_dialog import asked, open_dialog, state_of
from support.views.running import a_quiet_cluster, moved, watching_run, watching_runs
from support.views.watching import LARGE, MIDDLE, SMALL

NAMES = ("a-0", "a-1", "b-0")


async def test_the_dialog_shows_what_is_sent_and_how_each_partition_will_end(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=SMALL) as watch:
        await open_dialog(watch, "up")
        for size in (SMALL, MIDDLE, LARGE):
            await watch.resize(size)
            assert "● everything in the run (3 partitions)" in watch.text
            assert watch.dialog_line("a-0 ").split() == [
                "a-0",
                "adding",
                "cancel",
                *"123",
                "3",
                "1",
            ]
            assert watch.dialog_line("b-0 ").split() == [
                "b-0",
                "queued",
                "nothing",
                *"123",
                "3",
                "1",
            ]
            assert "1 in flight is cancelled, 2 will not start" in watch.text
            assert "This also shuts the cluster's cancel gate" in watch.text


async def test_the_preview_of_a_cancel_follows_the_chosen_scope_and_action(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await watch.pass_until("done 1/3")
        await open_dialog(watch)
        assert "● stop" in watch.text
        assert "partition a-1" in watch.dialog_line("●")
        await watch.press("down", "right")
        await watch.see()
        assert "● topic a (2 partitions)" in watch.text
        assert "● roll back" in watch.text
        assert watch.dialog_line("a-0 ").split()[:4] == ["a-0", "done", "4", "steps"]
        assert "1 in flight is cancelled, 1 is rolled back" in watch.text
        await watch.pilot.click("#actions", offset=(12, 0))
        assert "● stop" in watch.text
        assert watch.dialog_line("a-0 ").split()[:3] == ["a-0", "done", "nothing:"]
        await watch.pilot.click("#scopes", offset=(12, 0))
        assert "● partition a-1" in watch.text


async def test_a_rollback_names_its_bytes_and_its_time_before_it_is_asked_for(
    tmp_path: Path,
) -> None:
    names = [f"a-{n}" for n in range(4)]
    cluster, at_once = a_quiet_cluster(*names, messages=20_000), Limits(replicas=3, partitions=2)
    async with watching_run(cluster, tmp_path, moved(*names), at_once, size=LARGE) as watch:
        await watch.pass_until("done 2/4")
        await watch.pass_time(25)
        await open_dialog(watch, "up", "right")
        assert "● everything in the run (4 partitions)" in watch.text
        assert "2 in flight are cancelled, 2 are rolled back" in watch.text
        # three replicas of two partitions, 20 MB each, at 1 MB/s onto each of three brokers
        assert "114 MiB to copy back (about 4" in watch.line("to copy back")


async def test_enter_requests_nothing_and_esc_leaves_everything_as_it_is(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await open_dialog(watch)
        await watch.press("enter", "enter")
        assert isinstance(watch.app.screen, CancelScreen)
        await watch.press("escape")
        await watch.see()
        assert isinstance(watch.app.screen, WatchScreen)
        assert asked(watch) == []
        assert state_of(watch, "a-0") is State.ADDING


async def test_marked_partitions_come_first_and_those_outside_the_run_are_left_out(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, "x-0", messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.press("down", "space", "v")
        await watch.do(move("x-0", 4, 2, 3))
        while watch.cursor != "x-0":
            await watch.press("down")
        await watch.press("space")
        await open_dialog(watch)
        assert "● 1 marked partition; 1 marked is not in the run" in watch.text
        assert "a-1" in watch.dialog_line("queued")


async def test_a_read_only_view_shows_the_cancel_preview_and_why_it_cannot_be_requested(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", messages=50_000)
    async with watching_run(cluster, tmp_path, moved("a-0"), write=False) as watch:
        await open_dialog(watch)
        assert (
            "This view is read-only; open it with ktui watch --write to make changes." in watch.text
        )
        assert "1 in flight is cancelled" in watch.text
        await watch.press("y")
        await watch.see()
        assert isinstance(watch.app.screen, CancelScreen)
        assert state_of(watch, "a-0") is State.ADDING


async def test_the_cancel_key_without_a_run_reports_that_none_is_attached(tmp_path: Path) -> None:
    async with watching_runs(a_quiet_cluster("a-0"), tmp_path) as watch:
        await watch.press("c")
        assert "No run is attached." in watch.text


async def test_the_dialog_shows_a_refused_rollback_and_its_cause(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "a-1")
    async with watching_run(cluster, tmp_path, moved("a-0", "a-1")) as watch:
        await watch.pass_until("done 1/2")
        await watch.do(layout.Kill(1))
        await watch.pass_time(20)
        await open_dialog(watch, "up", "right")
        assert "broker 1 of its original replicas is down" in watch.text
        assert "refused for now" in watch.text


async def test_the_dialog_warns_when_a_cancel_leaves_fewer_than_min_insync_replicas(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", messages=500_000, configs={"min.insync.replicas": "2"})
    async with watching_run(cluster, tmp_path, moved("a-0")) as watch:
        await watch.do(layout.Kill(2), layout.Kill(3))
        await watch.pass_time(40)
        await open_dialog(watch)
        assert "1 would stay in sync, fewer than min.insync.replicas (2)" in watch.text
        assert "1 at risk" in watch.text
