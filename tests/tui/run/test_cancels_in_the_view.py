from __future__ import annotations

from pathlib import Path

from ktui.execution.journal.commands import CancelMoves, Command, Continue
from ktui.execution.run.states import CancelKind, State
from ktui.tui.screens.run.cancel import CancelScreen
from support.simulated.moving_clusters import ORIGINAL
from support.views.cancel_dialog import carry_out, known, open_dialog, state_of
from support.views.running import NAME, RunWatched, a_quiet_cluster, moved, watching_run

NAMES = ("a-0", "a-1", "b-0")


async def test_a_stopped_partition_is_never_shown_as_done(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=10_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await carry_out(watch)
        assert "1 in flight is cancelled" in watch.text
        await watch.pass_until("1 stopped")
        row = watch.line("a-0")
        assert "stopped" in row
        assert "×" in row  # noqa: RUF001 - the sign that operators see
        assert "done 0/3" in watch.line("run drain-3")
        assert known(watch, "a-0").replicas == ORIGINAL
        await watch.press("slash")
        await watch.type("state:stopped")
        await watch.press("enter")
        assert watch.rows == ["a-0"]
        await watch.pass_until("ENDED", most_s=3_000)
        assert "done 2/3" in watch.lines[1]
        assert "1 stopped" in watch.lines[1]


async def test_a_finished_partition_is_rolled_back_with_its_leader(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0", "b-0"), tmp_path, moved("a-0", "b-0")) as watch:
        await watch.pass_until("done 1/2")
        await watch.press("slash")
        await watch.type("a-0")
        await watch.press("enter")
        await carry_out(watch, "right")
        assert "rolling back" in watch.line("a-0   ")
        assert "↩" in watch.line("a-0   ")
        assert "ROLLING BACK 0/1" in watch.line("run drain-3")
        await watch.press("enter")
        await watch.see()
        coming = [line.split() for line in watch.lines if "to come" in line]
        assert coming[-1][1:4] == ["1", "2", "3"]
        assert "(cancelled)" in watch.line("target")
        assert "roll back a-0, requested by" in watch.text
        await watch.press("escape")
        await watch.pass_until("1 rolled back", most_s=3_000)
        assert "rolled back" in watch.line("a-0   ")
        assert known(watch, "a-0").replicas == ORIGINAL
        assert known(watch, "a-0").leader == 1


async def test_replicas_that_a_stop_leaves_beyond_the_plan_are_shown_and_trimmed(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", messages=20_000)
    async with watching_run(cluster, tmp_path, moved("a-0")) as watch:
        await watch.pass_until("step 2/4")
        await open_dialog(watch)
        assert "4 replicas, the plan has 3: trim drops 1 of them" in watch.text
        await watch.press("y")
        await watch.pass_until("ENDED")
        await watch.press("enter")
        await watch.see()
        assert "×" in watch.line("  4     in sync")  # noqa: RUF001 - the sign that operators see
        printed = " ".join(watch.text.split())
        assert "It was stopped with 4 replicas; it had 3, and was to have 3. c and trim" in printed
        await carry_out(watch, "right")
        await watch.press("escape")
        await watch.pass_until("ENDED")
        assert state_of(watch, "a-0") is State.STOPPED
        assert known(watch, "a-0").replicas == ORIGINAL


async def test_the_dialog_pauses_and_continues_topics_and_marked_partitions(
    tmp_path: Path,
) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await watch.press("down", "down", "space")
        await open_dialog(watch, "left", "left")
        assert "● pause" in watch.text
        assert "Nothing is cancelled: what is in flight ends." in watch.text
        await watch.press("y")
        await watch.pass_until("paused by the operator")
        assert "paused by the operator" in watch.line("b-0")
        await carry_out(watch, "left")
        assert "paused by the operator" not in watch.text


async def test_a_request_for_everything_names_no_partitions(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await open_dialog(watch, "up", "left")
        assert chosen(watch) == Continue()
        await watch.press("right", "right")
        assert chosen(watch) == CancelMoves(CancelKind.ROLLBACK)


def chosen(watch: RunWatched) -> Command | None:
    """Return the command that is chosen in the cancel dialog."""
    assert isinstance(watch.app.screen, CancelScreen)
    return watch.app.screen._chosen.command


async def test_a_rollback_goes_ahead_of_queued_partitions(tmp_path: Path) -> None:
    names = [f"a-{n}" for n in range(4)]
    async with watching_run(a_quiet_cluster(*names), tmp_path, moved(*names)) as watch:
        await watch.pass_until("done 1/4")
        await watch.press("end")
        while "a-0" not in watch.cursor:
            await watch.press("up")
        await carry_out(watch, "right")
        assert "P 1 of 1 in use" in watch.line("a-0")
        assert "queued (2)" in watch.line("a-2")
        await watch.pass_until("done 1/4", most_s=500)
        await watch.see()
        assert "rolling back" in watch.line("a-0")
        assert "queued (1)" in watch.line("a-2")


async def test_a_cancel_in_a_run_without_an_engine_starts_one_and_pauses_the_rest(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.engines.aclose()
        await watch.see()
        await open_dialog(watch)
        assert "one starts for this, and the rest of it is paused" in watch.text
        await watch.press("y")
        await watch.pass_until("PAUSED")
        await watch.pass_until("1 stopped")
        assert state_of(watch, "a-1") is State.QUEUED
        assert known(watch, "a-0").replicas == ORIGINAL


async def test_an_ended_run_is_rolled_back_from_the_list_of_runs(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0", "b-0"), tmp_path, moved("a-0", "b-0")) as watch:
        await watch.pass_until("ENDED")
        await watch.press("r")
        await watch.say("ended at")
        await watch.press("c")
        await watch.until(lambda: isinstance(watch.app.screen, CancelScreen))
        await watch.see()
        await watch.see()
        assert "● roll back" in watch.text
        assert "2 are rolled back" in watch.text
        assert "The run has ended: an engine starts for this" in watch.text
        assert "to copy back" in watch.text
        await watch.press("y")
        await watch.say("Type the run's name")
        await watch.type("another")
        await watch.press("enter")
        await watch.say(f"Type {NAME} to confirm")
        assert known(watch, "a-0").replicas != ORIGINAL
        await watch.press("ctrl+u")
        await watch.type(NAME)
        await watch.press("enter")
        await watch.pass_until("ROLLING BACK 0/2")
        await watch.pass_until("2 rolled back", most_s=3_000)
        await watch.pass_until("ENDED")
        assert "CANCEL GATE" not in watch.text
        assert known(watch, "a-0").replicas == known(watch, "b-0").replicas == ORIGINAL
        await watch.press("r")
        await watch.say("2 called off (rolled back)")
        assert watch.line(NAME).split()[:5] == [NAME, "ENDED", "0/2", "0", "2"]


async def test_an_ended_run_has_nothing_to_stop(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.pass_until("ENDED")
        await open_dialog(watch, "left")
        assert "There is nothing to stop: all of it has ended already." in watch.text
        await watch.press("y")
        assert isinstance(watch.app.screen, CancelScreen)
