"""Demos of small stories, by clocks that a test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from ktui.cli.watch.demo import Playing, demo_app, recorder_of
from ktui.simulated.clock import ScaledClock, VirtualClock
from ktui.simulated.scenario.file import FASTEST
from ktui.simulated.scenario.library import load_scenario
from ktui.tui.app.demo import DemoApp
from support.views.screens import RealTime
from support.views.watching import scratch

STORY = """
title: A small story
about: Broker 3 is drained.
cluster: {brokers: 4}
topics: {orders: {partitions: 4, size: 1GiB}}
plan: {start: 5s, throttle: 10MB/s, drain: [3]}
"""
PACED = STORY.replace("drain: [3]", "drain: [3], limits: {replicas: 1, partitions: 1}")
SPEED = 10.0


class Demo(RealTime[DemoApp]):
    """A running demo, with its clock, real time and its keyboard."""

    def __init__(
        self, app: DemoApp, clock: ScaledClock, real: VirtualClock, pilot: Pilot[None]
    ) -> None:
        super().__init__(app, real, pilot)
        self.clock = clock


@asynccontextmanager
async def a_demo(
    story: str = STORY,
    size: tuple[int, int] = (120, 30),
    record: Path | None = None,
    *,
    tour: bool = False,
    folder: Path | None = None,
) -> AsyncIterator[Demo]:
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(scratch()))
        path = place / "story.yaml"
        path.write_text(story, encoding="utf-8")
        real = VirtualClock()
        clock = ScaledClock(SPEED, fastest=FASTEST, real=real)
        recorder = None if record is None else recorder_of(record, "story", clock)
        playing = Playing(load_scenario(path), "story", pictures=place, tour=tour)
        async with (
            demo_app(playing, clock, recorder) as app,
            app.run_test(size=size, notifications=True) as pilot,
        ):
            await pilot.pause()
            yield Demo(app, clock, real, pilot)


CAPTIONED = f"""{STORY}
captions:
  - {{at: 0s, say: "Broker 3 is drained. Press `b` for [bold]the brokers[/]."}}
  - {{when: done, say: "The first one is done."}}
"""
