"""Cancels and ends of a run in the view, and undo."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from ktui.execution.journal.commands import CancelMoves, Command, Continue, SetLimits
from ktui.execution.journal.journal import Journal
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.change_screen import LimitsScreen, ThrottleScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.simulated.moving_clusters import ORIGINAL
from support.views.watching import (
    LARGE,
    NAME,
    SMALL,
    RunWatched,
    a_new_run,
    a_quiet_cluster,
    asked,
    carry_out,
    known,
    moved,
    open_dialog,
    state_of,
    watching_moves,
    watching_run,
)

NAMES = ("a-0", "a-1", "b-0")


async def test_a_stopped_partition_is_never_shown_as_done() -> None:
    async with watching_moves(*NAMES, messages=10_000) as watch:
        await carry_out(watch)
        assert "1 in flight is cancelled" in watch.text
        await watch.pass_until("1 stopped")
        row = watch.line("a-0")
        assert "stopped" in row
        assert "×" in row  # noqa: RUF001 - the sign that operators see
        assert "done 0/3" in watch.line("run drain-3")
        assert known(watch, "a-0").replicas == ORIGINAL
        await watch.press("slash")
        await watch.submit("state:stopped")
        assert watch.rows == ["a-0"]
        await watch.pass_until("ENDED", most_s=3_000)
        assert "done 2/3" in watch.lines[1]
        assert "1 stopped" in watch.lines[1]


async def test_a_finished_partition_is_rolled_back_with_its_leader() -> None:
    async with watching_moves("a-0", "b-0") as watch:
        await watch.pass_until("done 1/2")
        await watch.press("slash")
        await watch.submit("a-0")
        await carry_out(watch, "right")
        assert "to roll back" in watch.line("a-0   ")
        assert "↩" in watch.line("a-0   ")
        assert "ROLLING BACK, 0 of 1 back" in watch.line("run drain-3")
        await watch.press_and_see("enter")
        coming = [line for line in watch.lines if "to come" in line]
        assert "  1 2 3        drops 4 5 6" in coming[-1]
        assert "(cancelled)" in watch.line("target")
        await watch.resize(LARGE)  # room for all its events
        assert "roll back a-0, requested by" in watch.text
        await watch.press("escape")
        await watch.pass_until("1 rolled back", most_s=3_000)
        assert "rolled back" in watch.line("a-0   ")
        assert known(watch, "a-0").replicas == ORIGINAL
        assert known(watch, "a-0").leader == 1


async def test_replicas_that_a_stop_leaves_beyond_the_plan_are_shown_and_trimmed() -> None:
    async with watching_moves("a-0", messages=20_000) as watch:
        await watch.pass_until("step 2/4")
        await open_dialog(watch)
        assert "4 replicas, the plan has 3: trim drops 1 of them" in watch.text
        await watch.press("y")
        await watch.pass_until("ENDED")
        await watch.press_and_see("enter")
        assert "×" in watch.line("  4     in sync")  # noqa: RUF001 - the sign that operators see
        printed = " ".join(watch.text.split())
        assert "It was stopped with 4 replicas; it had 3, and was to have 3. c and trim" in printed
        await carry_out(watch, "right")
        await watch.press("escape")
        await watch.pass_until("ENDED")
        assert state_of(watch, "a-0") is State.STOPPED
        assert known(watch, "a-0").replicas == ORIGINAL


async def test_the_dialog_pauses_and_continues_topics_and_marked_partitions() -> None:
    async with watching_moves(*NAMES) as watch:
        await watch.press("down", "down", "space")
        await open_dialog(watch, "left", "left")
        assert "● pause" in watch.text
        assert "Nothing is cancelled: what is in flight ends." in watch.text
        await watch.press("y")
        await watch.pass_until("paused by the operator")
        assert "paused by the operator" in watch.line("b-0")
        await carry_out(watch, "left")
        assert "paused by the operator" not in watch.text


async def test_a_request_for_everything_names_no_partitions() -> None:
    async with watching_moves(*NAMES) as watch:
        await open_dialog(watch, "up", "left")
        assert chosen(watch) == Continue()
        await watch.press("right", "right")
        assert chosen(watch) == CancelMoves(CancelKind.ROLLBACK)


def chosen(watch: RunWatched) -> Command | None:
    """Return the command that is chosen in the cancel dialog."""
    assert isinstance(watch.app.screen, CancelScreen)
    return watch.app.screen._chosen.command


async def test_a_rollback_goes_ahead_of_queued_partitions() -> None:
    names = [f"a-{n}" for n in range(4)]
    async with watching_moves(*names) as watch:
        await watch.pass_until("done 1/4")
        await watch.press("end")
        while "a-0" not in watch.cursor:
            await watch.press("up")
        await carry_out(watch, "right")
        assert "1 of 1 under way (P)" in watch.line("a-0")
        assert "queued (2)" in watch.line("a-2")
        await watch.pass_until("done 1/4", most_s=500)
        await watch.see()
        assert "rolling back" in watch.line("a-0")
        assert "queued (1)" in watch.line("a-2")


async def test_a_cancel_in_a_run_without_an_engine_starts_one_and_pauses_the_rest() -> None:
    async with watching_moves(*NAMES, messages=50_000) as watch:
        await watch.kill_engine()
        await open_dialog(watch)
        assert "one starts for this, and the rest of it is paused" in watch.text
        await watch.press("y")
        await watch.pass_until("PAUSED")
        await watch.pass_until("1 stopped")
        assert state_of(watch, "a-1") is State.QUEUED
        assert known(watch, "a-0").replicas == ORIGINAL


async def test_an_ended_run_is_rolled_back_from_the_list_of_runs() -> None:
    async with watching_moves("a-0", "b-0") as watch:
        await watch.pass_until("ENDED")
        await watch.press("r", say="ended at")
        await watch.press("c")
        await watch.until(lambda: isinstance(watch.app.screen, CancelScreen))
        await watch.see()
        await watch.see()
        assert "● roll back" in watch.text
        assert "2 are rolled back" in watch.text
        assert "The run has ended: an engine starts for this" in watch.text
        assert "to copy back" in watch.text
        await watch.press("y", say="Type the run's name")
        await watch.submit("another", f"Type {NAME} to confirm")
        assert known(watch, "a-0").replicas != ORIGINAL
        await watch.press("ctrl+u")
        await watch.submit(NAME)
        await watch.pass_until("ROLLING BACK, 0 of 2 back")
        await watch.pass_until("2 rolled back", most_s=3_000)
        await watch.pass_until("ENDED")
        assert "CANCEL GATE" not in watch.text
        assert known(watch, "a-0").replicas == known(watch, "b-0").replicas == ORIGINAL
        await watch.press("r", say="2 called off (rolled back)")
        assert watch.line("0/2").split()[:6] == [NAME, "ENDED", "0/2", "↩" * 16, "0", "2"]


async def test_an_ended_run_has_nothing_to_stop() -> None:
    async with watching_moves("a-0") as watch:
        await watch.pass_until("ENDED")
        await open_dialog(watch, "left")
        assert "There is nothing to stop: all of it has ended already." in watch.text
        await watch.press("y")
        assert isinstance(watch.app.screen, CancelScreen)


THERE = (7, 8, 9)


@asynccontextmanager
async def one_ended_and_another_lives(size: tuple[int, int] = LARGE) -> AsyncIterator[RunWatched]:
    """Show a run that has ended; another moves one of its partitions, and one of its own."""
    cluster = a_quiet_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), Limits(), size=size) as watch:
        await watch.pass_until("ENDED")
        targets = moved("a-0", "b-0", target=THERE)
        await watch.engines.start(a_new_run(targets, Limits(partitions=2, replicas=1), "night"))
        for _ in range(7):
            await watch.see()
        await watch.say("night")
        yield watch


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_line_names_the_run_that_lives_while_the_shown_one_has_ended(
    size: tuple[int, int],
) -> None:
    async with one_ended_and_another_lives(size) as watch:
        assert watch.attached.name == NAME
        line = watch.line("▶ also:")
        assert "run night RUNNING 0/2" in line
        assert line.rstrip().endswith("ctrl+r shows it")
        assert f"{NAME} ENDED" in watch.text


async def test_rows_in_flight_show_the_state_in_the_run_that_moves_them() -> None:
    async with one_ended_and_another_lives() as watch:
        assert "moving" in watch.row("a-0")
        assert "run night" in watch.row("a-0")
        await watch.do(*map(layout.Kill, THERE))
        await watch.pass_until("2 STALLED of run night (r)", most_s=60)
        assert "STALLED" in watch.row("a-0")
        assert "run night: broker 7 is down" in watch.row("a-0")
        assert "run night: broker 7 is down" in watch.row("b-0")  # which the ended run never had


@pytest.mark.parametrize("key", ["p", "P", "t", "l", "c"])
async def test_keys_on_the_row_of_another_run_point_to_that_run(key: str) -> None:
    async with one_ended_and_another_lives() as watch:
        await watch.press(key)
        assert isinstance(watch.app.screen, WatchScreen)
        assert "a-0 belongs to run night: press ctrl+r to show that run" in watch.text


@pytest.mark.parametrize("key", ["p", "t", "c"])
async def test_keys_on_a_row_of_the_ended_run_point_to_the_run_that_lives(key: str) -> None:
    ended, (live,) = moved("a-0", "c-0"), moved("a-0", target=THERE).items()
    async with watching_run(
        a_quiet_cluster("a-0", "c-0"), ended, Limits(partitions=2), size=LARGE
    ) as watch:
        await watch.pass_until("ENDED")
        await watch.engines.start(a_new_run(dict([live]), Limits(), "night"))
        await watch.pass_until("run night")
        await watch.press("end", key)
        words = "Run drain-3 has ended; run night is running. Press ctrl+r to show it."
        assert words in watch.text


async def test_the_run_that_lives_is_one_key_away_and_then_takes_the_keys() -> None:
    async with one_ended_and_another_lives() as watch:
        await watch.press("r", say="engine: ")
        await watch.press("home", "enter")
        await watch.until(lambda: watch.app.attached and watch.attached.name == "night")
        await watch.see()
        assert "▶ also:" not in watch.text
        await watch.press("p")
        assert "Pause run night?" in watch.text


async def test_a_key_goes_from_run_to_run_and_the_line_names_those_not_shown() -> None:
    cluster = a_quiet_cluster("a-0", "b-0", "c-0", messages=100_000)
    async with watching_run(cluster, moved("a-0"), Limits(), size=SMALL) as watch:
        for topic, name in (("b-0", "eve"), ("c-0", "owl")):
            beside = a_new_run(moved(topic), Limits(), name)
            await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        await watch.pass_until("run owl RUNNING 0/1")
        assert f"run {NAME}  RUNNING" in watch.text
        for shown, others in (
            ("eve", (NAME, "owl")), ("owl", (NAME, "eve")), (NAME, ("eve", "owl"))
        ):  # fmt: skip
            await watch.press("ctrl+r")
            await watch.pass_until(f"run {shown}  RUNNING")
            await watch.pass_until("▶ also:")
            line = watch.line("▶ also:")
            assert all(f"run {other} RUNNING 0/1 done" in line for other in others)
            assert f"run {shown}" not in line
            assert line.rstrip().endswith("ctrl+r next")


async def test_no_other_run_is_shown_while_a_plan_is_made_for_this_one() -> None:
    cluster = a_quiet_cluster("a-0", "b-0", messages=100_000)
    async with watching_run(cluster, moved("a-0"), Limits(), size=SMALL) as watch:
        beside = a_new_run(moved("b-0"), Limits(), "night")
        await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        await watch.pass_until("run night RUNNING")
        await watch.press("n", "ctrl+r")
        assert "Leave the plan first, with esc" in watch.text
        assert watch.attached.name == NAME


async def test_keys_on_a_row_that_another_live_run_moves_point_to_that_run() -> None:
    cluster = a_quiet_cluster("a-0", "b-0", messages=100_000)
    async with watching_run(cluster, moved("a-0"), Limits(), size=LARGE) as watch:
        beside = a_new_run(moved("b-0"), Limits(), "night")
        await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        await watch.press("v")
        await watch.pass_until("run night")
        for _ in range(6):
            await watch.see()
        assert "run night" in watch.row("b-0")
        assert "foreign" not in watch.text
        await watch.press("end")
        for key in ("c", "p", "t"):
            await watch.press(key)
            assert "b-0" in watch.text
            assert "press ctrl+r to show that run" in watch.text
        await watch.press("ctrl+r")
        await watch.until(lambda: watch.app.attached and watch.attached.name == "night")


async def test_a_run_that_waits_for_resume_is_named_too() -> None:
    async with one_ended_and_another_lives() as watch:
        await watch.engines.aclose()
        await watch.pass_until("run night WAITING FOR RESUME")
        await watch.press("p")
        assert "a-0 belongs to run night: press ctrl+r" in watch.text
        await watch.pass_time(5.0)
        assert "run night" in watch.row("a-0")


async def test_the_line_goes_with_the_last_run_that_has_not_ended() -> None:
    async with one_ended_and_another_lives() as watch:
        for _ in range(60):
            await watch.see()
        assert "▶ also:" not in watch.text
        assert "night" not in watch.row("a-0")
        assert "✓ drain-3 ENDED" in watch.text


UNDO_NAMES = ("a-0", "a-1", "a-2")


async def change_limits(watch: RunWatched, partitions: str) -> None:
    """Change the limit P in the dialog, and wait for the answer."""
    await watch.press("l", "down")
    await watch.submit(partitions)
    await watch.pass_until("in force: they bind")
    await watch.press_and_see("escape")


def limits_of(watch: RunWatched) -> Limits:
    return watch.attached.run.limits


async def test_an_undo_shows_what_it_puts_back_and_a_second_one_undoes_that() -> None:
    async with watching_moves(*UNDO_NAMES, messages=100_000, size=SMALL) as watch:
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


async def test_the_throttle_is_put_back_through_its_dialog_with_its_effects() -> None:
    async with watching_moves(*UNDO_NAMES, throttle="20MB", messages=100_000) as watch:
        await watch.press("t")
        assert "ctrl+z" not in watch.text  # nothing was changed yet
        await watch.submit("30MB")
        await watch.pass_until("30 MB/s into each broker, at once")
        await watch.see()
        await watch.type("5MB")
        await watch.press("ctrl+z")
        assert "20MB" in watch.dialog_line("new throttle")
        assert "Undoes your change" in watch.text
        assert "Lowered: for up to 11 s" in watch.text
        await watch.press("escape")
        await watch.submit(":undo")
        await watch.until(lambda: isinstance(watch.app.screen, ThrottleScreen))
        await watch.press("enter")
        await watch.pass_until("20 MB/s into each broker, at once")


async def test_a_change_by_somebody_else_is_not_undone_even_if_it_comes_after_the_preview() -> None:
    async with watching_moves(*UNDO_NAMES, messages=100_000) as watch:
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
        await watch.press("escape", "U", say="is not yours: ada@ops1 (7) made it")


async def test_a_read_only_view_undoes_nothing() -> None:
    async with watching_moves(*UNDO_NAMES, messages=100_000, write=False) as watch:
        await watch.press("U")
        assert isinstance(watch.app.screen, WatchScreen)
        await watch.say("This view is read-only")
