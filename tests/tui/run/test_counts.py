"""The counts of a run's partitions: the same in the header, the list and the dashboard."""

from __future__ import annotations

from pathlib import Path

from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.views.running import ELSEWHERE, a_quiet_cluster, moved, watching_run
from support.views.watching import LARGE

NAMES = ("a-0", "a-1", "a-2")


async def test_what_is_ready_for_its_cut_is_counted_as_ready_and_nowhere_as_done(
    tmp_path: Path,
) -> None:
    limits = Limits(replicas=3, replica_movements=6, cut_together=3)
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES), limits, size=LARGE) as watch:
        await watch.pass_until("2 ready")
        assert "done 0/3  2 ready  1 copying" in watch.line("run drain-3")
        assert sum("ready" in watch.row(name) for name in NAMES) == 2
        await watch.press("d")
        assert "partitions 3  ▒ 1 copying  ▙ 2 ready ─" in watch.text
        assert "done 0/3  2 ready  1 copying" in watch.line("run drain-3")


async def test_a_cut_waits_for_no_more_partitions_than_the_plan_has(tmp_path: Path) -> None:
    limits = Limits(replicas=3, replica_movements=6)
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES), limits, size=LARGE) as watch:
        await watch.pass_until("cut: 2 of 3 ready")


async def test_copies_onto_a_broker_that_is_down_count_as_trouble_from_the_first_poll_on(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    limits = Limits(replicas=3)
    async with watching_run(cluster, tmp_path, moved(*NAMES), limits, size=LARGE) as watch:
        assert "3 copying" in watch.line("run drain-3")
        await watch.do(*map(layout.Kill, ELSEWHERE))
        await watch.pass_until("down", most_s=20)
        assert "3 held up" in watch.line("‼")
        assert "copying" not in watch.line("run drain-3")
        assert "held up" in watch.row("a-0")
        await watch.press("d")
        assert "□ 3 held up" in watch.text
        await watch.pass_until("3 STALLED", most_s=60)
        assert "held up" not in watch.text
