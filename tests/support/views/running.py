"""A run on a simulated cluster, watched by the whole app; every wait is for a condition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ktui.cli.watch.demo import SimulatedEngines
from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated.cluster import SimulatedCluster
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import a_cluster, tp
from support.views.watching import MIDDLE, Looks, Watching, an_app

NAME = "drain-3"
ELSEWHERE = (4, 5, 6)
ONE_BY_ONE = Limits(replicas=1, partitions=1)


def a_quiet_cluster(*names: str, **how: Any) -> SimulatedCluster:
    """Return a cluster with these partitions at rest on ORIGINAL; a copy takes some seconds."""
    return a_cluster(resting=names, **{"messages": 5_000, **how})


def moved(*names: str, target: tuple[int, ...] = ELSEWHERE) -> dict[TopicPartition, Any]:
    """Return a plan that moves all of them to one place."""
    return dict.fromkeys(map(tp, names), target)


def a_new_run(
    targets: Mapping[TopicPartition, tuple[int, ...]],
    limits: Limits,
    name: str = NAME,
    throttle: str = "none",
) -> NewRun:
    return NewRun(
        name=name,
        plan=plan_of(targets),
        plan_name=f"{name}.json",
        limits=limits,
        allowed=Allowances(replication_factor_change=True, below_min_isr=True),
        options=RunOptions(throttle=parse_throttle_rates(throttle)),
    )


class RunWatched(Watching):
    """A running app that is attached to a run, and the engine of that run."""

    engines: SimulatedEngines
    state_dir: StateDir
    run: RunDir

    async def pass_until(self, words: str, *, most_s: float = 300.0) -> None:
        """Let time pass, poll by poll, until the screen shows some words."""
        until_s = self.clock.monotonic() + most_s
        while words not in self.text:
            assert self.clock.monotonic() < until_s, f"{words!r} never came:\n{self.text}"
            await self.see()

    async def say(self, words: str) -> None:
        """Wait, while the cluster's time stands still, until the screen shows some words."""
        await self.until(lambda: words in self.text)


@asynccontextmanager
async def watching_runs(
    cluster: SimulatedCluster,
    folder: Path,
    *,
    size: tuple[int, int] = MIDDLE,
    write: bool = True,
    **how: Any,
) -> AsyncIterator[RunWatched]:
    """Run the app beside a state directory, and wait for the first poll."""
    state_dir = StateDir(folder / "state")
    engines = SimulatedEngines(cluster, state_dir)
    looks = Looks(cluster)
    app = an_app(
        cluster,
        looks,
        read_only=not write,
        state_dir=state_dir,
        engines=engines,
        brokers=engines.brokers,
        verbs=ShellVerbs(),
        **how,
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        watch = RunWatched(app, looks, cluster, pilot)
        watch.engines, watch.state_dir = engines, state_dir
        watch.run = state_dir.run(NAME)
        await watch.begin()
        yield watch
    await engines.aclose()
    await looks.aclose()


@asynccontextmanager
async def watching_run(
    cluster: SimulatedCluster,
    folder: Path,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    limits: Limits = ONE_BY_ONE,
    throttle: str = "none",
    **how: Any,
) -> AsyncIterator[RunWatched]:
    """Start a run, and watch it in the app that is attached to it."""
    async with watching_runs(cluster, folder, **how) as watch:
        run = await watch.engines.start(a_new_run(targets, limits, throttle=throttle))
        watch.app.call_later(watch.app.attach_to, run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.see()
        yield watch
