"""Draw the pictures of the documentation from `ktui demo` and a rehearsal, on a virtual clock.

    python scripts/draw_demo.py [FOLDER]

The same program always draws the same pictures: the scenarios, the seed and the clock are fixed.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from svg_sequence import Frame, frame_of, sequence_svg
from textual.pilot import Pilot

from ktui.cli.context.config import Context
from ktui.cli.rehearse import StartCommand
from ktui.cli.rehearse_live import LivePlan, rehearsal_app
from ktui.cli.watch.demo import Playing, demo_app
from ktui.cluster.clock import PausableClock
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import resolve_state_dir
from ktui.execution.run.options import RunOptions
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.rehearsal.twin import Twin
from ktui.rehearsal.twins import prepare
from ktui.simulated.clock import ScaledClock, VirtualClock
from ktui.simulated.scenario.file import FASTEST, Scenario
from ktui.simulated.scenario.library import load_scenario, shipped_path
from ktui.tui.app.demo import DemoApp
from ktui.tui.app.simulated import RehearsalApp

IMAGES = Path(__file__).parents[1] / "docs" / "images"
FRAME_S = 1.2
THROTTLE = 80_000_000
"""Of the rehearsal, in bytes a second."""


class Step(NamedTuple):
    """Time that passes in the cluster, and the keys pressed after it."""

    seconds: float
    keys: tuple[str, ...] = ()
    still: str = ""
    """The name of the picture that shows the screen after this step."""


class Play(NamedTuple):
    """A scenario in a terminal of some size, and the steps taken in it."""

    scenario: str
    size: tuple[int, int]
    steps: tuple[Step, ...]
    film: str = ""
    """The name of the moving picture that shows every step."""
    rehearses: str = ""
    """The name of the scenario's plan, where that is rehearsed."""


PLAYS = (
    Play(
        "drain-a-broker",
        (120, 34),
        (
            Step(5),
            Step(60),
            Step(20, ("down", "down", "enter")),
            Step(15, still="partition"),
            Step(5, ("escape", "t")),
            Step(2, (*"60MB", "enter")),
            Step(4),
            Step(20, ("escape", "home"), still="run"),
            Step(5, ("c", "up", "right"), still="cancel"),
            Step(5, ("escape", "b")),
            Step(25, ("escape",)),
            Step(60),
            Step(330),
        ),
        film="demo",
    ),
    Play("broker-dies-mid-move", (120, 27), (Step(290), Step(10, still="watch"))),
    Play(
        "drain-a-broker",
        (120, 30),
        (
            Step(60, ("down", "B", "k")),
            Step(60, ("c", "up", "right")),
            Step(1, ("y", *"drain", "enter")),
            Step(40),
            Step(5, still="rehearsal"),
        ),
        rehearses="drain",
    ),
)


class Stage:
    """A running demo or rehearsal whose clock and keys a script controls."""

    def __init__(
        self,
        app: DemoApp | RehearsalApp,
        clock: PausableClock,
        real: VirtualClock,
        pilot: Pilot[None],
    ) -> None:
        self.app = app
        self._clock = clock
        self._real = real
        self._pilot = pilot

    async def take(self, step: Step) -> Frame:
        """Take a step, and return the screen after it, with no earlier notification."""
        self.app.clear_notifications()
        await self._pass_time(step.seconds)
        await self._pilot.press(*step.keys)
        if isinstance(self.app, DemoApp):
            self.app.draw_lines()  # by itself it comes in real time
        await self._pilot.pause()
        return frame_of(self.app)

    async def _pass_time(self, seconds: float) -> None:
        """Let the cluster's time pass, one poll at a time, and draw the screen after the last."""
        until = self._clock.monotonic() + seconds
        with self.app.batch_update():
            while self._clock.monotonic() < until:
                await self._real.advance(1.0)
                while self._seen_s < self._clock.monotonic():
                    await self._pilot.pause()
        await self._pilot.pause()

    @property
    def _seen_s(self) -> float:
        last = self.app.progress.last
        return -1.0 if last is None else last.monotonic_s


@asynccontextmanager
async def staged(name: str, size: tuple[int, int]) -> AsyncIterator[Stage]:
    """Play a shipped scenario at its own speed in a terminal of this size."""
    scenario, real = load_scenario(shipped_path(name)), VirtualClock()
    clock = ScaledClock(scenario.speed, real=real)
    async with (
        demo_app(Playing(scenario, name), clock) as app,
        app.run_test(size=size) as pilot,
    ):
        await pilot.pause()
        yield Stage(app, clock, real, pilot)


@asynccontextmanager
async def rehearsed(live: LivePlan, size: tuple[int, int]) -> AsyncIterator[Stage]:
    """Rehearse a plan in the view, in a terminal of this size."""
    real = VirtualClock()
    clock = ScaledClock(10.0, fastest=FASTEST, real=real)
    async with rehearsal_app(live, clock) as (app, _), app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Stage(app, clock, real, pilot)


def live_plan(scenario: Scenario, name: str) -> LivePlan:
    """Prepare the rehearsal of a scenario's plan on its cluster.

    Raises:
        SystemExit: there is no plan, or a start of it would be refused.
    """
    of = scenario.plan
    if of is None:
        raise SystemExit("the scenario has no plan")
    twin = Twin(name="prod.yaml", spec=scenario.spec)
    targets = of.targets.items()
    wanted = NewRun(
        plan=Plan(tuple(PartitionTarget(tp.topic, tp.partition, to) for tp, to in targets)),
        name=name,
        plan_name=f"{name}.json",
        limits=scenario.limits,
        options=RunOptions(record=False, throttle=ThrottleRates(THROTTLE)),
        allowed=Allowances(replication_factor_change=False, below_min_isr=False),
    )
    prepared = prepare(wanted, twin)
    if prepared.rehearsal is None:
        raise SystemExit(f"a start would be refused: {prepared.preview.findings}")
    return LivePlan(
        plan=wanted.plan_name,
        rehearsal=prepared.rehearsal,
        twin=twin,
        given_rate=False,
        findings=(),
        start=StartCommand(
            path=Path(wanted.plan_name),
            given=(),
            context=Context(),
            state=resolve_state_dir(None),
            exclude_internal=False,
        ),
    )


def opened(play: Play) -> AbstractAsyncContextManager[Stage]:
    """Return what shows a play's scenario."""
    if not play.rehearses:
        return staged(play.scenario, play.size)
    scenario = load_scenario(shipped_path(play.scenario))
    return rehearsed(live_plan(scenario, play.rehearses), play.size)


async def draw(play: Play, opens: AbstractAsyncContextManager[Stage]) -> dict[str, str]:
    """Play a scenario, and draw its pictures, by name."""
    pictures: dict[str, str] = {}
    frames: list[Frame] = []
    async with opens as stage:
        for step in play.steps:
            frames.append(await stage.take(step))
            if step.still:
                pictures[step.still] = sequence_svg(frames[-1:], play.size, frame_s=FRAME_S)
    if play.film:
        pictures[play.film] = sequence_svg(frames, play.size, frame_s=FRAME_S)
    return pictures


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder.mkdir(parents=True, exist_ok=True)
    for play in PLAYS:
        for name, picture in asyncio.run(draw(play, opened(play))).items():
            (folder / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
