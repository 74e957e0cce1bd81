"""The whole app on prepared polls, driven by keys, with the CPU time of each frame."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec
from textual import events
from textual._compositor import CompositorUpdate
from textual.pilot import Pilot

from bench.recording import START
from ktui.cli.output.view import rare_collections
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource
from ktui.tui.app.app import KtuiApp
from ktui.tui.draw.themes import load_themes
from ktui.tui.screens.dashboard.map import PartitionMap

PATIENCE_S = 300.0
"""Seconds after which a key counts as one that drew nothing."""


class PreparedPolls:
    """A source that returns prepared observations in turn, one whenever `go_on` is called."""

    def __init__(self, polls: Sequence[Observation]) -> None:
        self._polls = polls
        self._wanted = asyncio.Event()
        self.count = 0

    def go_on(self) -> None:
        """Answer one more poll."""
        self._wanted.set()

    async def poll(self, interest: Interest) -> Observation:
        """Return the next observation once it is wanted, a second after the last one."""
        del interest
        await self._wanted.wait()
        self._wanted.clear()
        seen = self._polls[min(self.count, len(self._polls) - 1)]
        self.count += 1
        return msgspec.structs.replace(seen, monotonic_s=float(self.count))

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Change nothing: the observations are prepared."""


class StillClock(SystemClock):
    """A clock that stands still, so that no frame of the clock on the screen is a key's."""

    def now(self) -> datetime:
        """Return the same time always."""
        return START

    def monotonic(self) -> float:
        """Return the same second always."""
        return 0.0


class Cockpit(KtuiApp):
    """The app; it notes the CPU time of the process at each frame, as written to a terminal."""

    def __init__(
        self,
        source: ObservationSource,
        *,
        clock: Clock | None = None,
        poll_interval_s: float = 0.0,
    ) -> None:
        super().__init__(
            source,
            cluster_name="bench",
            read_only=True,
            poll_interval_s=poll_interval_s,
            theme=None,
            themes=load_themes(None),
            clock=clock or StillClock(),
            finds_runs=False,
        )
        self.painted = asyncio.Event()
        self.pressed_cpu_s = self.painted_cpu_s = 0.0

    @property
    def busy(self) -> bool:
        """Whether the list or the map does not show the last poll or choice yet."""
        listed, maps = self.watch_screen.partition_list, self.screen.query(PartitionMap)
        unseen = listed.arrangement.timelines is not self.progress.timelines
        return unseen or listed.arranging or any(each.judging for each in maps)

    def _display(self, screen: Any, renderable: Any) -> None:
        # Textual has no public event for a written frame; this is where it writes one.
        super()._display(screen, renderable)
        if isinstance(renderable, CompositorUpdate):
            renderable.render_segments(self.console)  # without a terminal the app leaves it out
        self.painted_cpu_s = time.process_time()
        self.painted.set()


@asynccontextmanager
async def cockpit(
    source: PreparedPolls, size: tuple[int, int]
) -> AsyncIterator[tuple[Cockpit, Pilot[None]]]:
    """Run the app until the first poll is shown."""
    app = Cockpit(source)
    with rare_collections():
        async with app.run_test(size=size, notifications=True) as pilot:
            await next_poll(app, source)
            yield app, pilot


async def next_poll(app: Cockpit, source: PreparedPolls) -> None:
    """Let one poll be answered, and wait until it is on the screen."""
    before = app.progress.last
    source.go_on()
    async with asyncio.timeout(PATIENCE_S):
        while app.progress.last is before or app.busy:  # noqa: ASYNC110 - the app sends nothing to the bench
            await asyncio.sleep(0.01)


async def cpu_to_frame(app: Cockpit, key: str, shown: Callable[[], bool]) -> float | None:
    """Return the CPU seconds from a key until a frame shows something; None if none has."""
    app.painted.clear()
    app.pressed_cpu_s = time.process_time()
    app.post_message(events.Key(key, key if len(key) == 1 else None))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await app.painted.wait()
            while not shown():
                app.painted.clear()
                await app.painted.wait()
    except TimeoutError:
        return None
    return app.painted_cpu_s - app.pressed_cpu_s


async def settled(app: Cockpit, pilot: Pilot[None]) -> None:
    """Wait until everything known is on the screen."""
    async with asyncio.timeout(PATIENCE_S):
        while app.busy:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.005)
        await pilot.pause()
