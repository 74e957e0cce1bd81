"""A plan is rehearsed from the start screen, on twins of the cluster, before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ktui.cli.twin.report import ClusterRehearser
from ktui.execution.host.launch import NewRun
from ktui.planning.plan import Plan
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.twin.brokers import rates_of
from ktui.simulated.twin.make import ClusterTwin, take_twin
from ktui.tui.run_view.launchers import RehearsedPlan
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.plan.start import StartScreen
from support.runs.engine_runs import plan_of
from support.views.plan_steps import (
    a_plan_file,
    field,
    go_to,
    joined_words,
    plan_screen,
    read,
    report,
    settled,
)
from support.views.running import RunWatched, a_quiet_cluster, moved, watching_runs
from support.views.watching import SMALL

NAMES = ("a-0", "a-1")


class Twins:
    """Takes twins of a cluster without a measurement, and counts them."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.taken = 0

    async def __call__(self, plan: Plan) -> ClusterTwin:
        self.taken += 1
        reader, clock = self._cluster.reader(), self._cluster.clock
        return await take_twin(
            reader, clock, rates=lambda _id: rates_of(None), plan=plan, measure_s=0
        )


class Endless:
    """A rehearsal that goes on until it is cancelled."""

    cancelled = False

    async def rehearse(
        self, wanted: NewRun, progress: Callable[[str], None], *, new_snapshot: bool
    ) -> RehearsedPlan:
        del wanted, new_snapshot
        progress("measuring")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError


async def choose(watch: RunWatched, folder: Path) -> None:
    """Open the start screen on a plan for both partitions."""
    path = a_plan_file(folder, plan_of(moved(*NAMES)), "drain-3.json")
    await watch.press("n")
    await read(watch, path)
    await watch.until(lambda: "replica movements" in report(watch))
    await settled(watch)


def facts(watch: RunWatched) -> str:
    return joined_words(str(watch.app.screen.query_one("#start-facts").render()))


async def test_a_plan_is_rehearsed_with_the_limits_typed_on_one_snapshot_and_nothing_is_sent(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES)
    before = {
        name: topic.partitions[0].replicas for name, topic in cluster.controller.topics.items()
    }
    async with watching_runs(cluster, tmp_path, size=SMALL) as watch:
        await watch.press("n")
        assert "rehearse first" not in watch.text  # there is no plan yet
        await watch.press("escape")
        twins = Twins(cluster)
        watch.engines.rehearser = ClusterRehearser(
            "prod-eu", twins, measure_s=0, clock=cluster.clock
        )
        await choose(watch, tmp_path)
        assert "^y rehearse first" in watch.text
        await watch.press("ctrl+y")
        await watch.say("at target")
        assert "drain-3.json on a simulated twin, prod-eu. Nothing was sent." in watch.text
        figures = watch.line("at target").rstrip(" ▁▂▃▄▅▆▇█")  # without the scroll bar
        assert figures.split() == ["at", "target", *["2", "of", "2"] * 3]
        await watch.press("end")
        await watch.say("to the end: holds")
        await watch.say("the twins are those of a snapshot taken at")

        await watch.press("enter")
        assert plan_screen(watch).step.name == "limits"
        await go_to(watch, "start")
        await watch.until(lambda: "rehearsed" in facts(watch))
        assert "as it was typed before" not in facts(watch)
        await go_to(watch, "limits")
        field(watch, "#new-partitions").value = "1"
        await settled(watch)
        await go_to(watch, "start")
        await watch.until(lambda: "as it was typed before" in facts(watch))
        await watch.press("ctrl+y")
        await watch.say("at target")
        assert twins.taken == 1
        await watch.press("escape")
        await watch.until(lambda: "as it was typed before" not in facts(watch))
        assert field(watch, "#new-partitions").value == "1"
    assert before == {
        name: topic.partitions[0].replicas for name, topic in cluster.controller.topics.items()
    }


async def test_the_view_goes_on_beside_a_rehearsal_which_escape_cancels(tmp_path: Path) -> None:
    async with watching_runs(a_quiet_cluster(*NAMES), tmp_path, size=SMALL) as watch:
        endless = Endless()
        watch.engines.rehearser = endless
        await choose(watch, tmp_path)
        await watch.press("ctrl+y")
        await watch.say("measuring …")
        assert "esc cancel" in watch.text
        await watch.press("e")
        assert isinstance(watch.app.screen, EventsScreen)
        await watch.press("escape")
        assert "measuring …" in watch.text
        await watch.press("escape")
        await watch.until(lambda: isinstance(watch.app.screen, StartScreen))
        await watch.until(lambda: endless.cancelled)
