from __future__ import annotations

import re
from pathlib import Path

from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.tui.draw.format import as_duration, as_time
from support.simulated.moving_clusters import tp
from support.views.running import a_quiet_cluster, moved, watching_run, watching_runs


async def test_the_duration_of_a_partition_covers_all_steps_of_the_run(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.pass_until("step 2/4")
        assert watch.app.attached is not None
        rows = watch.app.attached.rows
        begun = rows.steps_taken(tp("a-0"))[0].at
        await watch.press("enter")
        assert f"since {as_time(begun)}, for" in watch.line("under way")
        await watch.pass_until("moved ")
        over = rows.steps_taken(tp("a-0"))[-1].over_at
        assert over is not None
        took = as_duration((over - begun).total_seconds())
        assert f"{as_time(begun)} to {as_time(over)}, {took}" in watch.line("moved ")


async def test_the_lanes_of_a_finished_partition_show_all_its_steps(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.pass_until("ENDED")
        await watch.press("enter")
        await watch.see()
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


async def test_a_leader_moved_by_a_cut_between_two_polls_has_its_star(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "b-0")
    async with watching_run(cluster, tmp_path, moved("a-0", "b-0"), poll_s=5.0) as watch:
        await watch.pass_until("ENDED")
        await watch.pass_time(10)
        assert "*4 5 6" in watch.line("a-0")
        assert "★" in watch.line("a-0")
        assert "*4 5 6" in watch.line("b-0")
        assert "★" in watch.line("b-0")


async def test_a_view_opened_during_a_stall_shows_it_as_the_run_does(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", messages=200_000)
    async with watching_run(cluster, tmp_path, moved("a-0", target=(4, 2, 3))) as earlier:
        await earlier.do(layout.Hang(4))
        await earlier.pass_until("STALLED", most_s=120)
        await earlier.pass_time(60)
        async with watching_runs(cluster, tmp_path) as watch:
            await watch.until(lambda: watch.app.attached is not None)
            await watch.see()
            await watch.see()
            assert "STALLED 1m" in watch.line("a-0")
            await watch.press("enter")
            await watch.see()
            assert "STALLED 1m" in watch.lines[2]
            assert "! broker 4 stalled for 1m" in watch.text
            assert "waits for" not in watch.text


async def test_a_waiting_partition_shows_why_in_its_row_and_in_full_in_its_detail(
    tmp_path: Path,
) -> None:
    names = ["a-0", "a-1", "a-2"]
    cluster = a_quiet_cluster(*names, messages=20_000)
    limits = Limits(replicas=1, partitions=2, cut_together=2, per_broker=1)
    plan = {**moved("a-0", "a-2", target=(4, 2, 3)), **moved("a-1", target=(5, 2, 3))}
    async with watching_run(cluster, tmp_path, plan, limits) as watch:
        await watch.see()
        assert "P 2 of 2 in use" in watch.line("a-2")
        await watch.press("end", "enter")
        await watch.see()
        assert "P lets 2 partitions be under way, and 2 are: it begins when one" in watch.text


async def test_a_ready_partition_shows_how_many_others_it_is_cut_with(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "b-0")
    limits = Limits(replicas=1, partitions=2)
    plan = {**moved("a-0", target=(4, 2, 3)), **moved("b-0", target=(5, 6, 7))}
    async with watching_run(cluster, tmp_path, plan, limits) as watch:
        await watch.pass_until("ready")
        assert "cut: 1 of 2 ready" in watch.line("a-0")
        await watch.press("slash")
        await watch.type("a-0")
        await watch.press("enter", "enter")
        await watch.see()
        assert "are cut together once 2 do (1 does by now)" in " ".join(watch.text.split())


async def test_no_message_covers_the_limits_of_a_read_only_view(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0"), write=False) as watch:
        await watch.press("p", "p")
        assert "ktui watch --write" in " ".join(watch.text.split())
        await watch.press("l")
        assert watch.text.count("read-only") == 1
        words = " ".join(" ".join(watch.dialog).split())
        assert "limits are changed in one that is opened with ktui watch --write" in words
