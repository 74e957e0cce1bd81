"""A rehearsal in the live view: the usual twin, at a speed, for as long as the view is open."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from ktui.cli.context.config import load_config
from ktui.cli.output.view import show_app
from ktui.cli.rehearsal_report import Report, ShownTwin, rehearsal_text
from ktui.cli.rehearse import StartCommand
from ktui.cli.watch.demo import SimulatedEngines, set_stage
from ktui.cluster.clock import PausableClock
from ktui.cluster.observer import ObservationSource
from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.engine import Engine
from ktui.execution.host.client import RunClient
from ktui.execution.host.launch import make_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import Owned
from ktui.execution.run.run import Run
from ktui.planning.check.findings import Finding
from ktui.progress.timeline import Timeline
from ktui.recording.recorder import Recorder
from ktui.rehearsal.play import LiveRehearsal, Rehearsal
from ktui.rehearsal.summary import summarise
from ktui.rehearsal.twin import Pace, Twin
from ktui.rehearsal.twins import Thresholds, check, rehearsed_twin, twin_recorder
from ktui.simulated.clock import ScaledClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.scenario.file import FASTEST
from ktui.tui.app.simulated import RehearsalApp

_NOT_BEGUN = "The run has not begun yet."


class LivePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to be rehearsed in the view, with what its report says about it."""

    plan: str
    rehearsal: Rehearsal
    twin: Twin
    given_rate: bool
    findings: tuple[Finding, ...]
    start: StartCommand
    record: Path | None = None


class _Closed(NamedTuple):
    again: bool
    report: str
    speed: float
    theme: str


def show_rehearsal(live: LivePlan, speed: float) -> str:
    """Rehearse a plan in the view until that is closed, and return the report as of then."""
    theme = load_config().theme
    while True:
        closed = asyncio.run(_show(live, speed, theme))
        gc.collect()  # a cluster and its app hold each other
        if not closed.again:
            return closed.report
        speed, theme = closed.speed, closed.theme


async def _show(live: LivePlan, speed: float, theme: str | None) -> _Closed:
    clock = ScaledClock(speed, fastest=FASTEST)
    async with rehearsal_app(live, clock, theme) as (app, shown):
        await show_app(app)
        return _Closed(app.plays_again, await shown.report(), clock.speed, app.theme)


@asynccontextmanager
async def rehearsal_app(
    live: LivePlan, clock: PausableClock, theme: str | None = None
) -> AsyncIterator[tuple[RehearsalApp, ShownRehearsal]]:
    """Start a rehearsal on the usual twin, and make an app for it; the caller runs the app."""
    rehearsal = live.rehearsal
    cluster = SimulatedCluster(live.twin.cluster(Pace.USUAL), clock)
    on_stage = LiveRehearsal(rehearsal, cluster)
    recorder = None if live.record is None else twin_recorder(live.record, live.twin, clock)
    engines = partial(RehearsalEngines, on_stage=on_stage)
    async with set_stage(cluster, clock, "rehearse", engines, recorder) as stage:
        run = make_run(stage.state_dir, rehearsal.name, rehearsal.first, clock)
        shown = ShownRehearsal(live, on_stage, run, recorder)
        app = RehearsalApp(
            rehearsal=shown, name=live.twin.name, run=run.path, theme=theme, **stage.app
        )
        stage.engines.launch(run)
        yield app, shown


class RehearsalEngines(SimulatedEngines):
    """Runs engines on a twin, of which that of the rehearsal is watched."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        state_dir: StateDir,
        clock: PausableClock,
        on_stage: LiveRehearsal,
    ) -> None:
        super().__init__(cluster, state_dir, clock)
        self._on_stage = on_stage

    def watched(
        self,
        run: Run,
        source: ObservationSource,
        timelines: Callable[[], Mapping[TopicPartition, Timeline]],
    ) -> ObservationSource:
        return self._on_stage.watch(run, source, timelines)

    async def execute(self, engine: Engine, run: Run, owned: Owned) -> None:
        if not self._on_stage.watches(run):
            await engine.execute(owned)
            return
        await engine.execute(msgspec.structs.replace(owned, until=self._on_stage.until))
        self.keep(asyncio.create_task(self._on_stage.end(run)))


class ShownRehearsal(ShownTwin):
    """The rehearsal of the view: changes the twin on request, and reports."""

    name = "rehearsal"

    def __init__(
        self, live: LivePlan, on_stage: LiveRehearsal, run: RunDir, recorder: Recorder | None
    ) -> None:
        super().__init__(on_stage)
        self._live, self._run, self._recorder = live, run, recorder

    async def report(self) -> str:
        entries = (await asyncio.to_thread(RunClient(self._run).read)).entries
        played = self.on_stage.played(entries)
        if played is None:
            return _NOT_BEGUN

        def text() -> str:
            live, twin = self._live, self._live.twin
            summary = summarise(played)
            twins = (rehearsed_twin(twin, Pace.USUAL, summary, self._recorder),)
            report = Report(
                plan=live.plan,
                twin=twin,
                given_rate=live.given_rate,
                findings=live.findings,
                twins=twins,
                checks=check(twins, Thresholds()) if self.outcome else (),
                start=live.start.lines(summary.settings),
            )
            return rehearsal_text(report, colours=False)

        return await asyncio.to_thread(text)
