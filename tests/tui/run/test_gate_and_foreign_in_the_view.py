"""The gate, others' moves, the objective, and the detail of a run."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from ktui.cli.watch import demo
from ktui.execution import RunRefused
from ktui.execution.host.ownership import CancelGateFile
from ktui.execution.host.state_dir import RunDir
from ktui.execution.throttle.objective import Figure
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import Objective
from ktui.simulated import layout
from ktui.tui.draw.format import as_duration, as_time
from support.simulated.moving_clusters import ORIGINAL, move, tp
from support.views.watching import (
    ONE_BY_ONE,
    SMALL,
    RunWatched,
    a_new_run,
    a_quiet_cluster,
    carry_out,
    known,
    moved,
    watching_moves,
    watching_run,
    watching_runs,
)

NAMES = ("a-0", "a-1", "b-0")
ELSEWHERE_TOO = (7, 8, 9)


async def test_cancelling_everything_shuts_the_gate_until_it_is_opened() -> None:
    cluster = a_quiet_cluster(*NAMES, "x-0")
    async with watching_run(cluster, moved(*NAMES)) as watch:
        await carry_out(watch, "up")
        assert "ONLY ROLLBACKS GO ON  cancelled by" in watch.lines[0]
        assert "O allows moves" in watch.lines[0]
        await watch.pass_until("ENDED")
        assert "1 stopped, 2 not started" in watch.lines[1]
        gate = CancelGateFile(watch.state_dir, cluster.spec.name).state()
        assert gate is not None
        assert gate.reason == "stop everything in the run (3 partitions) of run drain-3"
        await watch.press("O")
        assert "Open the cancel gate?" in watch.text
        await watch.press("enter")
        assert "Open the cancel gate?" in watch.text
        await watch.press_and_see("y")
        assert "ONLY ROLLBACKS GO ON" not in watch.text
        assert "The cancel gate is open" in watch.text
        await watch.press("O")
        assert "The cancel gate of this cluster is open." in watch.text


async def test_partitions_held_back_by_the_gate_show_it_and_resume_when_it_opens() -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, moved(*NAMES)) as watch:
        gate = CancelGateFile(watch.state_dir, cluster.spec.name)
        gate.shut(cluster.clock.now(), "ada@ops1 (4711)", "stop everything")
        await watch.pass_time(3)
        assert "ONLY ROLLBACKS GO ON  cancelled by ada@ops1 (4711)" in watch.lines[0]
        assert "the cancel gate is shut" in watch.line("b-0")
        assert watch.lines[-1].strip().startswith("O allow new moves   ")
        await watch.press("O", "y")
        await watch.pass_until("done 3/3")


async def test_a_foreign_reassignment_is_cancelled_only_by_its_own_key_and_dialog() -> None:
    cluster = a_quiet_cluster("a-0", "x-0", messages=100_000)
    async with watching_run(cluster, moved("a-0")) as watch:
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


async def test_x_cancels_the_marked_foreign_reassignments_and_no_other() -> None:
    cluster = a_quiet_cluster("a-0", "x-0", "x-1", "y-0", messages=100_000)
    async with watching_run(cluster, moved("a-0")) as watch:
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


async def test_the_advice_to_cancel_a_foreign_reassignment_names_its_key() -> None:
    cluster = a_quiet_cluster("a-0", "x-0", messages=100_000)
    async with watching_run(cluster, moved("a-0")) as watch:
        await watch.do(move("x-0", *ELSEWHERE_TOO), *map(layout.Kill, ELSEWHERE_TOO))
        await watch.press("v")
        while watch.cursor != "x-0":
            await watch.press("down")
        await watch.press("enter")
        await watch.pass_until("or cancel this reassignment (X).", most_s=120)


async def test_a_reassignment_of_the_run_itself_is_not_foreign() -> None:
    async with watching_moves("a-0") as watch:
        await watch.press("X")
        assert "No one else is reassigning this partition." in watch.text


async def test_rows_held_in_one_run_are_not_held_in_the_next() -> None:
    cluster = a_quiet_cluster("a-0", "a-1", "b-0", messages=100_000)
    async with watching_run(cluster, moved("a-0", "a-1"), ONE_BY_ONE) as watch:
        await watch.press("down", say="(held)")
        beside = a_new_run(moved("b-0"), Limits(), "other")
        other = await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        watch.app.attach_to(other)
        await watch.say("run other")
        assert "(held)" not in watch.text


async def test_a_reassignment_of_another_live_run_cannot_be_cancelled_as_foreign() -> None:
    cluster = a_quiet_cluster("a-0", "b-0", messages=100_000)
    async with watching_run(cluster, moved("a-0"), ONE_BY_ONE) as watch:
        beside = a_new_run(moved("b-0"), Limits(), "other")
        await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        await watch.see()
        await watch.see()
        await watch.press("v")
        while watch.cursor != "b-0":
            await watch.press("down")
        await watch.press("X")
        words = "b-0: Run other is reassigning it: press ctrl+r to show that run, and call it"
        await watch.say(words)
        assert known(watch, "b-0").adding


async def test_another_run_is_called_by_its_name_and_not_someone_else() -> None:
    async with watching_moves("a-0", "b-0", limits=ONE_BY_ONE, messages=100_000) as watch:
        beside = a_new_run(moved("b-0", target=ELSEWHERE_TOO), Limits(), "other")
        await watch.engines.start(msgspec.structs.replace(beside, concurrent=True))
        await watch.pass_until("▶ also:  run other RUNNING 0/1 done")
        assert "moving" in watch.row("b-0")
        assert "run other" in watch.row("b-0")
        assert "foreign" not in watch.row("b-0")
        await watch.do(*map(layout.Kill, ELSEWHERE_TOO))
        await watch.pass_until("1 STALLED of run other (r)", most_s=120)
        assert "STALLED, foreign" not in watch.text


async def test_the_gate_stays_open_when_cancelling_the_run_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, moved(*NAMES)) as watch:
        await watch.kill_engine()

        async def refuse(run: RunDir, _ask: object) -> None:
            raise RunRefused(f"run {run.name} was exported to drain.run")

        monkeypatch.setattr(watch.engines, "resume", refuse)
        await carry_out(watch, "up")
        assert "was exported to drain.run" in watch.text
        assert CancelGateFile(watch.state_dir, cluster.spec.name).state() is None


FELT = {1: 40.0, 2: 40.0, 3: 40.0, 4: 33.5, 5: 412.0, 6: 130.0}
"""The p99 of each broker, in ms."""


@asynccontextmanager
async def with_an_objective(
    monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> AsyncIterator[RunWatched]:
    """Watch a run whose canary measures `figure`."""

    def felt(_objective: Objective) -> Figure:
        return figure

    monkeypatch.setattr(demo, "CanaryFigure", lambda _producers: felt)
    limits, throttle = Limits(partitions=1), "slo=p99<150ms"
    async with watching_moves(
        "a-0", limits=limits, throttle=throttle, messages=2_000_000, copied_s=50_000, size=SMALL
    ) as watch:
        await watch.pass_until("kept")
        yield watch


async def test_the_throttle_dialog_draws_the_figure_of_each_broker_and_why_its_rate_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with with_an_objective(monkeypatch, Figure(None, brokers=FELT)) as watch:
        await watch.press("t")
        assert "p99<150ms held in 0 of 1 window." in watch.text
        assert "█│███»▏     412ms   1.0 MB/s  least: 412ms" in watch.line("5        ▕")
        assert "░░······│    ▏    33.5ms   1.0 MB/s  least: b5 412ms" in watch.line("4        ▕")
        assert "130ms   1.0 MB/s" in watch.line("6        ▕")


async def test_the_brokers_screen_shows_what_the_objective_allows_for_a_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with with_an_objective(monkeypatch, Figure(None, brokers=FELT)) as watch:
        await watch.press(
            "b", "home", *["down"] * 4, say="the least rate: p99 of broker 5 was 412ms"
        )
        assert "│███»▏     412ms" in watch.line("p99<150ms  ▕")


async def test_one_figure_of_all_brokers_has_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_an_objective(monkeypatch, Figure(33.5)) as watch:
        await watch.press("t")
        assert "up: 33.5ms" in watch.line("all     ▕")


async def test_the_duration_of_a_partition_covers_all_steps_of_the_run() -> None:
    async with watching_moves("a-0") as watch:
        await watch.pass_until("step 2/4")
        rows = watch.attached.rows
        begun = rows.steps_taken(tp("a-0"))[0].at
        await watch.press("enter")
        assert f"since {as_time(begun)}, for" in watch.line("under way")
        await watch.pass_until("moved ")
        over = rows.steps_taken(tp("a-0"))[-1].over_at
        assert over is not None
        took = as_duration((over - begun).total_seconds())
        assert f"{as_time(begun)} to {as_time(over)}, {took}" in watch.line("moved ")


async def test_the_lanes_of_a_finished_partition_show_all_its_steps() -> None:
    async with watching_moves("a-0") as watch:
        await watch.pass_until("ENDED")
        await watch.press_and_see("enter")
        bars = [
            line for line in watch.lines if re.match(r" +[*>]?\d  +(leader|in sync|gone)", line)
        ]
        lanes = {line.split()[0]: line for line in bars}
        for broker in ("4", "5", "6"):
            lane = next(line for name, line in lanes.items() if name.endswith(broker))
            assert any(bar in lane for bar in "▂▃▄▅▆▇"), f"broker {broker} is never added"
        assert "★" in lanes["*4"]
        assert all("·" in lanes[broker] for broker in ("1", "2", "3"))
        assert "The lanes begin at" not in watch.text


async def test_a_leader_moved_by_a_cut_between_two_polls_has_its_star() -> None:
    async with watching_moves("a-0", "b-0", poll_s=5.0) as watch:
        await watch.pass_until("ENDED")
        await watch.pass_time(10)
        assert "*4 5 6" in watch.line("a-0")
        assert "★" in watch.line("a-0")
        assert "*4 5 6" in watch.line("b-0")
        assert "★" in watch.line("b-0")


async def test_a_view_opened_during_a_stall_shows_it_as_the_run_does(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", messages=200_000)
    async with watching_run(cluster, moved("a-0", target=(4, 2, 3)), folder=tmp_path) as earlier:
        await earlier.do(layout.Hang(4))
        await earlier.pass_until("STALLED", most_s=120)
        await earlier.pass_time(60)
        async with watching_runs(cluster, folder=tmp_path) as watch:
            await watch.until(lambda: watch.app.attached is not None)
            await watch.see()
            await watch.see()
            assert "STALLED 1m" in watch.line("a-0")
            await watch.press_and_see("enter")
            assert "STALLED 1m" in watch.lines[2]
            assert "! copy onto broker 4 stalled for 1m" in watch.text
            assert "waits for" not in watch.text


async def test_a_waiting_partition_shows_why_in_its_row_and_in_full_in_its_detail() -> None:
    names = ["a-0", "a-1", "a-2"]
    cluster = a_quiet_cluster(*names, messages=20_000)
    limits = Limits(replicas=1, partitions=2, cut_together=2, per_broker=1)
    plan = {**moved("a-0", "a-2", target=(4, 2, 3)), **moved("a-1", target=(5, 2, 3))}
    async with watching_run(cluster, plan, limits) as watch:
        await watch.see()
        assert "2 of 2 under way (P)" in watch.line("a-2")
        await watch.press_and_see("end", "enter")
        assert "P lets 2 partitions be under way, and 2 are: it begins when one" in watch.text


async def test_a_ready_partition_shows_how_many_others_it_is_cut_with() -> None:
    cluster = a_quiet_cluster("a-0", "b-0")
    limits = Limits(replicas=1, partitions=2)
    plan = {**moved("a-0", target=(4, 2, 3)), **moved("b-0", target=(5, 6, 7))}
    async with watching_run(cluster, plan, limits) as watch:
        await watch.pass_until("ready")
        assert "drop waits: 1 of 2 ready" in watch.line("a-0")
        await watch.press("slash")
        await watch.type("a-0")
        await watch.press_and_see("enter", "enter")
        assert "are cut together once 2 do (1 does by now)" in " ".join(watch.text.split())


async def test_no_message_covers_the_limits_of_a_read_only_view() -> None:
    async with watching_moves("a-0", write=False) as watch:
        await watch.press("p", "p")
        assert "ktui watch --write" in " ".join(watch.text.split())
        await watch.press("l")
        assert watch.text.count("read-only") == 1
        words = " ".join(" ".join(watch.dialog).split())
        assert "limits are changed in one that is opened with ktui watch --write" in words
