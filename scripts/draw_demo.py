"""Draw the pictures of the documentation from `ktui demo`, on a virtual clock.

    python scripts/draw_demo.py [FOLDER]

The same program always draws the same pictures: the scenarios, the seed and the clock are fixed.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from svg_sequence import Frame, frame_of, sequence_svg
from textual.pilot import Pilot

from ktui.cli.watch.demo import demo_app
from ktui.simulated.clock import VirtualClock
from ktui.simulated.scenario.library import load_scenario, shipped_path
from ktui.tui.app.demo import DemoApp

IMAGES = Path(__file__).parents[1] / "docs" / "images"
FRAME_S = 1.2


class Step(NamedTuple):
    """Time that passes in the cluster, and the keys pressed after it."""

    seconds: float
    keys: tuple[str, ...] = ()


class Picture(NamedTuple):
    """A scenario in a terminal of some size, and the steps to what the picture shows."""

    scenario: str
    size: tuple[int, int]
    steps: tuple[Step, ...]
    moving: bool = False
    """Whether every step is a frame, or only the last one."""


PICTURES = {
    "demo": Picture(
        "drain-a-broker",
        (120, 34),
        (
            *[Step(20)] * 5,
            Step(20, ("down", "down", "enter")),
            *[Step(15)] * 3,
            Step(5, ("escape", "t")),
            Step(1, tuple("60MB")),
            Step(1, ("enter",)),
            Step(4),
            Step(5, ("escape",)),
            *[Step(20)] * 4,
            Step(5, ("b",)),
            *[Step(20)] * 2,
            Step(5, ("escape",)),
            *[Step(25)] * 5,
        ),
        moving=True,
    ),
    "run": Picture("drain-a-broker", (120, 28), (Step(200), Step(10))),
    "partition": Picture(
        "drain-a-broker", (120, 30), (Step(150), Step(30), Step(5, ("down", "enter")))
    ),
    "watch": Picture("broker-dies-mid-move", (120, 27), (Step(290), Step(10))),
    "cancel": Picture(
        "drain-a-broker", (120, 37), (Step(205), Step(5), Step(5, ("c", "up", "right")))
    ),
}


class Stage:
    """A running demo whose clock and keys a script controls."""

    def __init__(
        self, app: DemoApp, clock: VirtualClock, pilot: Pilot[None], step_s: float
    ) -> None:
        self.app = app
        self._clock = clock
        self._pilot = pilot
        self._step_s = step_s

    async def take(self, step: Step) -> Frame:
        """Take a step, and return the screen after it, with no earlier notification."""
        self.app.clear_notifications()
        await self._pass_time(step.seconds)
        await self._pilot.press(*step.keys)
        await self._pilot.pause()
        return frame_of(self.app)

    async def _pass_time(self, seconds: float) -> None:
        """Let the cluster's time pass, one poll at a time."""
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until:
            await self._clock.advance(self._step_s)
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
    scenario, clock = load_scenario(shipped_path(name)), VirtualClock()
    speed = scenario.speed
    async with (
        demo_app(scenario, clock, name=name, seed=0, speed=speed, theme=None) as app,
        app.run_test(size=size) as pilot,
    ):
        await pilot.pause()
        yield Stage(app, clock, pilot, speed)


async def draw(picture: Picture) -> str:
    """Play a picture's scenario, and draw its frames."""
    async with staged(picture.scenario, picture.size) as stage:
        frames = [await stage.take(step) for step in picture.steps]
    return sequence_svg(frames if picture.moving else frames[-1:], picture.size, frame_s=FRAME_S)


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        (folder / f"{name}.svg").write_text(asyncio.run(draw(picture)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
