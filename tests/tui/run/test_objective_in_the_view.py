"""The view draws an objective: the figure of each broker, its rate, and why that moved last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ktui.cli.watch import demo
from ktui.execution.throttle.objective import Figure
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import Objective
from support.views.running import RunWatched, a_quiet_cluster, moved, watching_run
from support.views.watching import SMALL

FELT = {1: 40.0, 2: 40.0, 3: 40.0, 4: 33.5, 5: 412.0, 6: 130.0}
"""The p99 of each broker, in ms."""


@asynccontextmanager
async def with_an_objective(
    folder: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> AsyncIterator[RunWatched]:
    """Watch a run whose canary measures `figure`."""

    def felt(_objective: Objective) -> Figure:
        return figure

    monkeypatch.setattr(demo, "CanaryFigure", lambda _producers: felt)
    cluster = a_quiet_cluster("a-0", messages=2_000_000, copied_s=50_000)
    limits, throttle = Limits(partitions=1), "slo=p99<150ms"
    async with watching_run(cluster, folder, moved("a-0"), limits, throttle, size=SMALL) as watch:
        await watch.pass_until("kept")
        yield watch


async def test_the_throttle_dialog_draws_the_figure_of_each_broker_and_why_its_rate_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_an_objective(tmp_path, monkeypatch, Figure(None, brokers=FELT)) as watch:
        await watch.press("t")
        assert "p99<150ms held in 0 of 1 window." in watch.text
        assert "█│███»▏     412ms   1.0 MB/s  least: 412ms" in watch.line("5        ▕")
        assert "░░······│    ▏    33.5ms   1.0 MB/s  least: b5 412ms" in watch.line("4        ▕")
        assert "130ms   1.0 MB/s" in watch.line("6        ▕")


async def test_the_brokers_screen_shows_what_the_objective_allows_for_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_an_objective(tmp_path, monkeypatch, Figure(None, brokers=FELT)) as watch:
        await watch.press("b", "home", *["down"] * 4)
        await watch.say("the least rate: p99 of broker 5 was 412ms")
        assert "│███»▏     412ms" in watch.line("p99<150ms  ▕")


async def test_one_figure_of_all_brokers_has_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_an_objective(tmp_path, monkeypatch, Figure(33.5)) as watch:
        await watch.press("t")
        assert "up: 33.5ms" in watch.line("all     ▕")
