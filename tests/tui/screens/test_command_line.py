"""`:` opens a line with the verbs of the shell, their values and their refusals."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktui.pacing.limits import Limits, Mode
from ktui.simulated.cluster import SimulatedCluster
from support.views.running import a_quiet_cluster, moved, watching_run
from support.views.watching import SMALL, Watching

NAMES = ("a-0", "a-1", "b-0", "b-1")


def a_cluster_of_four() -> SimulatedCluster:
    return a_quiet_cluster(*NAMES, messages=100_000)


async def command(watch: Watching, line: str) -> None:
    await watch.press("colon")
    await watch.type(line)
    await watch.press("enter")


async def test_limits_and_throttle_are_changed_as_in_the_shell(tmp_path: Path) -> None:
    async with watching_run(a_cluster_of_four(), tmp_path, moved(*NAMES), size=SMALL) as watch:
        await command(watch, "limits P=3 --mode wave")
        await watch.pass_until("limits: in force: they bind")
        assert watch.app.attached is not None
        run = watch.app.attached.run
        assert run.limits == Limits(replicas=1, partitions=3, mode=Mode.WAVE)

        await command(watch, "throttle 80MB,3=20MB")
        await watch.pass_until("throttle 80 MB/s")
        assert watch.app.attached.run.throttled.rates.every == 80_000_000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("limits P=0", "--partitions: 0 is too small. Use a whole number from 1"),
        ("limits --partition 3", "No such option"),
        ("schedule", "schedule: nothing to change. Give --window, --start-at, --while or --by"),
        ("schedule --window 22", "--window: '22' is not a window. Give it such as 22:00-05:00"),
        ("throttle fast", "RATE: 'fast': expected a rate such as 50MB/s"),
        ("cancel a-0", "none of --stop, --rollback, --trim was given. Give one of them"),
        ("cancel --stop", "no scope was given. Give --topic T"),
        ("cancel a-9 --stop", "run drain-3 does not have topic 'a-9'"),
        ("cancel a-0 --stop --json", "No such option"),
        ("pause --partition a", "expected TOPIC:NUMBER, such as orders:3"),
        ("filter broker:x", "broker:x is not a number"),
        ("view topics", "there is no view 'topics'. Use run or reassigning or unhealthy"),
        ("sort size", "there is no order 'size'. Use state or partition"),
        ("theme pink", "there is no theme 'pink'. Use colour-blind or dark"),
        ("trottle 5MB", "unknown command 'trottle'. Did you mean throttle?"),
        ("pause 'a-0", "A quote is not closed."),
    ],
)
async def test_what_the_shell_refuses_is_refused_below_the_line_which_stays(
    tmp_path: Path, line: str, problem: str
) -> None:
    async with watching_run(a_cluster_of_four(), tmp_path, moved(*NAMES)) as watch:
        await command(watch, line)
        assert problem in " ".join(watch.text.split())
        assert f":{line}" in watch.text
        await watch.press("backspace")
        assert problem not in " ".join(watch.text.split())


async def test_a_run_that_waits_for_its_window_says_until_when_and_can_be_let_go_on(
    tmp_path: Path,
) -> None:
    async with watching_run(a_quiet_cluster(*NAMES), tmp_path, moved(*NAMES)) as watch:
        await command(watch, "schedule --start-at 2030-01-01T22:00Z")
        await watch.pass_until("WAITING")
        shown = f"{datetime(2030, 1, 1, 22, tzinfo=UTC).astimezone():%Y-%m-%d %H:%M}"
        assert f"the run starts at {shown}" in watch.text
        await command(watch, "schedule --start-at none")
        await watch.pass_until("RUNNING")


async def test_a_cancel_is_shown_before_it_is_sent_and_a_pause_is_asked_first(
    tmp_path: Path,
) -> None:
    async with watching_run(a_cluster_of_four(), tmp_path, moved(*NAMES)) as watch:
        await command(watch, "cancel a-0 b --rollback")
        assert "● b, a-0 (3 partitions)" in watch.text
        assert "● roll back" in watch.text
        await watch.press("escape")

        await command(watch, "pause")
        assert "Pause run drain-3?" in watch.text
        await watch.press("y")
        await watch.pass_until("PAUSED")
        await command(watch, "continue")
        assert "Let run drain-3 go on?" in watch.text
        await watch.press("y")
        await watch.pass_until("RUNNING")

        await command(watch, "pause a-1")
        await watch.pass_until("pause: ")
        assert watch.app.attached is not None
        assert {str(tp) for tp in watch.app.attached.run.pauses.partitions} == {"a-1"}


async def test_a_read_only_view_changes_no_run_and_still_filters_and_sorts(tmp_path: Path) -> None:
    targets = moved(*NAMES)
    async with watching_run(a_cluster_of_four(), tmp_path, targets, write=False) as watch:
        await command(watch, "throttle 80MB")
        assert "! This view is read-only" in watch.text
        await watch.press("escape", "enter")  # in the detail
        await command(watch, "filter b-")
        assert watch.rows == ["b-0", "b-1"]
        await command(watch, "sort partition reverse")
        assert watch.rows == ["b-1", "b-0"]
        await command(watch, "view reassigning")
        assert "reassigning ·" in watch.text
        await command(watch, "theme light")
        assert watch.app.theme == "light"


async def test_tab_completes_and_up_brings_back_earlier_lines(tmp_path: Path) -> None:
    async with watching_run(a_cluster_of_four(), tmp_path, moved(*NAMES)) as watch:
        await watch.press("colon")
        assert "brokers cancel continue events filter" in watch.text
        await watch.type("canc")
        await watch.press("tab")
        await watch.type("b-0 --st")
        await watch.press("tab")
        assert ":cancel b-0 --stop" in watch.text
        await watch.press("enter", "escape")

        await command(watch, "sort lag")
        await watch.press("colon", "up")
        assert ":sort lag" in watch.text
        await watch.press("up")
        assert ":cancel b-0 --stop" in watch.text
        await watch.press("down", "down")
        assert ":sort" not in watch.text
