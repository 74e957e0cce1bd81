"""The dashboard: flow, brokers, the run, and a map of partitions that one can walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.tui.screens.dashboard.map import MAP_CELLS, MapModel, MapState, PartitionMap
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets import off_loop
from support.simulated.moving_clusters import a_cluster
from support.views.running import a_quiet_cluster, moved, watching_run
from support.views.screens import BEGAN_S, timeline
from support.views.watching import LARGE, MIDDLE, SMALL, watching

NAMES = ("audit-0", *(f"orders-{n}" for n in range(4)))


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
async def test_the_dashboard_shows_flow_brokers_the_run_and_every_partition(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=60_000)
    limits = Limits(replicas=3, partitions=2)
    run = watching_run(cluster, tmp_path, moved(*NAMES), limits, "2MB", size=size)
    async with run as watch:
        await watch.pass_time(30)
        await watch.press("d")
        await watch.see()

        assert "copied into all brokers 3.0 MB/s · last 1 minute" in watch.text
        assert "1.0/2.0 MB/s" in watch.line("b4  ")
        assert "RUNNING" in watch.text
        assert "▒ 2 copying  · 3 queued" in watch.line("partitions 5")
        assert watch.line("orders  ").split()[1] == "▒···"

        await watch.press("down", "right", "right")
        assert "orders-2  queued" in watch.text
        await watch.press("enter")
        assert "orders-2" in watch.lines[1]
        await watch.press("escape", "escape")
        assert "run drain-3" in watch.text


async def test_trouble_has_a_sign_and_a_key_that_goes_to_it() -> None:
    names = [f"orders-{n}" for n in range(6)]
    cluster = a_cluster(moving=names, messages=10**6)
    async with watching(cluster) as watch:
        await watch.press("d")
        await watch.do(layout.Kill(4))
        await watch.pass_time(60)

        assert "! 6 stalled" in watch.line("partitions 6")
        await watch.press("w")
        assert "orders-1  STALLED" in watch.text


async def test_an_empty_dashboard_says_what_it_waits_for() -> None:
    async with watching(a_cluster(resting=["orders-0"])) as watch:
        await watch.press("d")

        assert "Nothing is being reassigned" in watch.text
        await watch.press("enter")
        assert "There is no partition to open." in watch.text


async def test_a_click_puts_the_cursor_on_a_partition(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.press("d")
        shown = watch.app.screen.query_one(PartitionMap)
        await watch.pilot.click(shown, offset=(shown._left + 3, 1))

        assert shown.partition == TopicPartition("orders", 3)


async def test_many_partitions_are_judged_beside_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(off_loop, "FEW", 0)
    cluster = a_cluster(moving=[f"orders-{n}" for n in range(6)], messages=10**6)
    async with watching(cluster) as watch:
        await watch.press("d")
        shown = watch.app.screen.query_one(PartitionMap)
        await watch.until(lambda: "▓ 6 moving" in watch.text)
        await watch.press("right", "right")
        await watch.do(layout.Kill(4))
        await watch.pass_time(60)
        await watch.until(lambda: not shown.judging)

        assert "! 6 stalled" in watch.line("partitions 6")
        assert shown.partition == TopicPartition("orders", 2)


def test_each_state_has_a_sign_of_its_own() -> None:
    assert len({cell.glyph for cell in MAP_CELLS.values()}) == len(MapState)


def test_a_hundred_thousand_partitions_are_blocks_that_show_the_worst() -> None:
    tps = [TopicPartition(f"t{n // 20_000}", n % 20_000) for n in range(100_000)]
    still = timeline(tps[0])
    model = MapModel()
    model.fit(100, 20)
    model.update(dict.fromkeys(tps, still), RowContext(BEGAN_S))

    assert len(model.lines) <= 20
    assert sum(model.counts.values()) == 100_000
    covered = [tp for n in range(len(model.lines)) for c in range(len(model.cells(n)))
               for tp in model.partitions(n, c)]  # fmt: skip
    assert sorted(covered) == sorted(tps)
    assert all(tps[7] in model.partitions(*place) for place in [model.place_of(tps[7])] if place)
