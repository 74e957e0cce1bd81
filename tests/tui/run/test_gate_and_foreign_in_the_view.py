from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from ktui.execution.errors import RunRefused
from ktui.execution.host.ownership import CancelGateFile
from ktui.execution.host.state_dir import RunDir
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.simulated.moving_clusters import ORIGINAL, move
from support.views.cancel_dialog import carry_out, known
from support.views.running import ONE_BY_ONE, a_new_run, a_quiet_cluster, moved, watching_run

NAMES = ("a-0", "a-1", "b-0")
ELSEWHERE_TOO = (7, 8, 9)


async def test_cancelling_everything_shuts_the_gate_until_it_is_opened(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, "x-0")
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await carry_out(watch, "up")
        assert "CANCEL GATE SHUT  by" in watch.lines[0]
        await watch.pass_until("ENDED")
        assert "1 stopped, 2 not started" in watch.lines[1]
        gate = CancelGateFile(watch.state_dir, cluster.spec.name).state()
        assert gate is not None
        assert gate.reason == "stop everything in the run (3 partitions) of run drain-3"
        await watch.press("O")
        assert "Open the cancel gate?" in watch.text
        await watch.press("enter")
        assert "Open the cancel gate?" in watch.text
        await watch.press("y")
        await watch.see()
        assert "CANCEL GATE SHUT" not in watch.text
        assert "The cancel gate is open" in watch.text
        await watch.press("O")
        assert "The cancel gate of this cluster is open." in watch.text


async def test_partitions_held_back_by_the_gate_show_it_and_resume_when_it_opens(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        gate = CancelGateFile(watch.state_dir, cluster.spec.name)
        gate.shut(cluster.clock.now(), "ada@ops1 (4711)", "stop everything")
        await watch.pass_time(3)
        assert "CANCEL GATE SHUT  by ada@ops1 (4711)" in watch.lines[0]
        assert "the cancel gate is shut" in watch.line("b-0")
        assert watch.lines[-1].strip().startswith("O open the gate   ")
        await watch.press("O", "y")
        await watch.pass_until("done 3/3")


async def test_a_foreign_reassignment_is_cancelled_only_by_its_own_key_and_dialog(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", "x-0", messages=100_000)
    async with watching_run(cluster, tmp_path, moved("a-0")) as watch:
        await watch.do(move("x-0", *ELSEWHERE_TOO))
        await watch.press("v")
        while watch.cursor != "x-0":
            await watch.press("down")
        assert "X cancel foreign" in watch.lines[-1]
        await watch.press("c")
        assert "x-0 is not in run drain-3" in watch.text
        assert "press X to cancel that" in " ".join(watch.text.split())
        await watch.press("X")
        printed = " ".join(watch.text.replace("│", " ").split())
        assert "Cancel this foreign reassignment of x-0?" in printed
        assert "It is moving to 7 8 9" in printed
        assert "keeps 1 2 3" in printed
        await watch.press("enter")
        assert "Cancel this foreign" in watch.text
        await watch.press("y")
        await watch.pass_until("stopped, on 1 2 3")
        assert known(watch, "x-0").replicas == ORIGINAL
        written = (watch.state_dir.path / "cancels.jsonl").read_text().splitlines()
        assert [json.loads(line)["outcome"] for line in written] == ["asked", "stopped"]


async def test_x_cancels_the_marked_foreign_reassignments_and_no_other(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "x-0", "x-1", "y-0", messages=100_000)
    async with watching_run(cluster, tmp_path, moved("a-0")) as watch:
        for name in ("x-0", "x-1", "y-0"):
            await watch.do(move(name, *ELSEWHERE_TOO))
        await watch.press("v")
        for name in ("a-0", "x-0", "y-0"):
            await watch.press("home")
            while watch.cursor != name:
                await watch.press("down")
            await watch.press("space")
        await watch.press("X")
        assert "Cancel 2 marked foreign reassignments?" in watch.text
        assert "Moving: x-0 to 7 8 9 and y-0 to 7 8 9." in watch.text
        assert "1 other marked partition" in watch.text
        await watch.press("y")
        await watch.pass_until("2 stopped: x-0 and y-0")
        assert known(watch, "x-0").replicas == known(watch, "y-0").replicas == ORIGINAL
        assert known(watch, "x-1").adding
        assert known(watch, "a-0").adding


async def test_the_advice_to_cancel_a_foreign_reassignment_names_its_key(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "x-0", messages=100_000)
    async with watching_run(cluster, tmp_path, moved("a-0")) as watch:
        await watch.do(move("x-0", *ELSEWHERE_TOO), *map(layout.Kill, ELSEWHERE_TOO))
        await watch.press("v")
        while watch.cursor != "x-0":
            await watch.press("down")
        await watch.press("enter")
        await watch.pass_until("or cancel the reassignment (X).", most_s=120)


async def test_a_reassignment_of_the_run_itself_is_not_foreign(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.press("X")
        assert "No one else is reassigning this partition." in watch.text


async def test_rows_held_in_one_run_are_not_held_in_the_next(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "a-1", "b-0", messages=100_000)
    async with watching_run(cluster, tmp_path, moved("a-0", "a-1"), ONE_BY_ONE) as watch:
        await watch.press("down")
        await watch.say("(held)")
        beside = a_new_run(moved("b-0"), Limits(), "other")
        other = await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        watch.app.attach_to(other)
        await watch.say("run other")
        assert "(held)" not in watch.text


async def test_a_reassignment_of_another_live_run_cannot_be_cancelled_as_foreign(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", "b-0", messages=100_000)
    async with watching_run(cluster, tmp_path, moved("a-0"), ONE_BY_ONE) as watch:
        beside = a_new_run(moved("b-0"), Limits(), "other")
        await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        await watch.see()
        await watch.see()
        await watch.press("v")
        while watch.cursor != "b-0":
            await watch.press("down")
        await watch.press("X")
        words = "b-0: Run other is reassigning it: show that run with r, and call it off there"
        await watch.say(words)
        assert known(watch, "b-0").adding


async def test_another_run_is_called_by_its_name_and_not_someone_else(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "b-0", messages=100_000)
    async with watching_run(cluster, tmp_path, moved("a-0", "b-0"), ONE_BY_ONE) as watch:
        beside = a_new_run(moved("b-0", target=ELSEWHERE_TOO), Limits(), "other")
        await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        await watch.pass_until("run other is reassigning it")
        assert "foreign" in watch.line("b-0")
        await watch.do(*map(layout.Kill, ELSEWHERE_TOO))
        await watch.pass_until("1 STALLED of run other (r)", most_s=120)
        assert "STALLED, foreign" not in watch.text


async def test_the_gate_stays_open_when_cancelling_the_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.engines.aclose()
        await watch.see()

        async def refuse(run: RunDir, _ask: object) -> None:
            raise RunRefused(f"run {run.name} was exported to drain.run")

        monkeypatch.setattr(watch.engines, "resume", refuse)
        await carry_out(watch, "up")
        assert "was exported to drain.run" in watch.text
        assert CancelGateFile(watch.state_dir, cluster.spec.name).state() is None
