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

from svg_sequence import Frame, frame_of, sequence_svg
from textual.pilot import Pilot

from ktui.cli.watch.demo import demo_app
from ktui.simulated.clock import VirtualClock
from ktui.simulated.scenario.library import load_scenario, shipped_path
from ktui.tui.app.demo import DemoApp

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PICTURE, PICTURE_SIZE, PICTURE_AT_S = "broker-dies-mid-move", (132, 27), 300
SEQUENCE, SEQUENCE_SIZE = "drain-a-broker", (120, 28)
SCRIPT: tuple[tuple[float, tuple[str, ...]], ...] = (
    (20, ()), (20, ()), (30, ()), (40, ()), (40, ()), (40, ()), (40, ("down", "enter")),
    (30, ()), (30, ()), (10, ("escape", "b")), (30, ()), (40, ("escape",)), (50, ()), (60, ()),
)  # fmt: skip
"""The cluster's seconds that pass before each frame, and the keys pressed after them."""
FRAME_S = 1.6


class Stage:
    """A running demo whose clock and keys a script controls."""

    def __init__(
        self, app: DemoApp, clock: VirtualClock, pilot: Pilot[None], step_s: float
    ) -> None:
        self.app = app
        self._clock = clock
        self._pilot = pilot
        self._step_s = step_s

    async def pass_time(self, seconds: float) -> None:
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

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until the screen has followed."""
        await self._pilot.press(*keys)
        await self._pilot.pause()


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


async def draw_picture() -> str:
    """Draw one moment: an outage in the middle of a move."""
    async with staged(PICTURE, PICTURE_SIZE) as play:
        await play.pass_time(PICTURE_AT_S)
        return play.app.export_screenshot(title="ktui")


async def draw_sequence() -> str:
    """Draw a plan from start to end, with the views of a partition and of the brokers between."""
    frames: list[Frame] = []
    async with staged(SEQUENCE, SEQUENCE_SIZE) as play:
        for seconds, keys in SCRIPT:
            await play.pass_time(seconds)
            await play.press(*keys)
            frames.append(frame_of(play.app))
    return sequence_svg(frames, SEQUENCE_SIZE, frame_s=FRAME_S)


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in (("watch.svg", draw_picture()), ("demo.svg", draw_sequence())):
        (folder / name).write_text(asyncio.run(drawing), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
