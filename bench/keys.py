"""Time from a key to its frame, in a list of 1,000, 10,000 and 100,000 partitions."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from typing import Any

from textual import events
from textual.app import App, ComposeResult

from bench.timing import percentile
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.simulated import events as acts
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from ktui.tui.draw.themes import role_defaults
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.screens.watch.row_context import RowContext

SIZE = (200, 60)
KEYS = 200
_PARTITIONS = 100
"""Partitions per topic."""
MIX = ("down", "down", "down", "pagedown", "up", "end", "home", "pagedown", "pageup", "down")


class Frames(App[None]):
    """An app with the list alone, which notes when each frame has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.painted = asyncio.Event()

    def compose(self) -> ComposeResult:
        """Show the list."""
        yield PartitionList()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours of the theme's roles."""
        return role_defaults(self.current_theme)

    def _display(self, screen: Any, renderable: Any) -> None:
        # Textual has no public event for a written frame; this is where it writes one.
        super()._display(screen, renderable)
        self.painted.set()


def run() -> None:
    """Print the figures."""
    for rows in (1_000, 10_000, 100_000):
        taken = asyncio.run(_measure(rows))
        print(
            f"key to frame, {rows:,} rows: median {percentile(taken, 0.5) * 1000:.1f} ms, "
            f"p95 {percentile(taken, 0.95) * 1000:.1f} ms (aim: at most 30 ms), "
            f"worst {max(taken) * 1000:.1f} ms"
        )


async def _measure(rows: int) -> list[float]:
    observation = await _moving(rows)
    progress = fold(Progress(), observation)
    app = Frames()
    async with app.run_test(size=SIZE) as pilot:
        shown = app.query_one(PartitionList)
        shown.focus()
        shown.show(progress.timelines, RowContext(observation.monotonic_s))
        await pilot.pause()
        gc.collect()
        keys = itertools.islice(itertools.cycle(MIX), KEYS)
        taken = [await _press(app, key) for key in keys]
        return [seconds for seconds in taken if seconds is not None]


async def _press(app: Frames, key: str) -> float | None:
    app.painted.clear()
    started = time.perf_counter()
    app.post_message(events.Key(key, None))
    try:
        async with asyncio.timeout(0.5):
            await app.painted.wait()
    except TimeoutError:  # at the end of the list a key changes nothing, and nothing is drawn
        return None
    return time.perf_counter() - started


async def _moving(rows: int) -> Observation:
    """Return an observation of this many moving partitions, half of their data copied."""
    clock = VirtualClock()
    names = [f"topic-{n:04}" for n in range(rows // _PARTITIONS)]
    cluster = SimulatedCluster(
        ClusterSpec(
            brokers=tuple(BrokerSpec(id=b) for b in range(1, 6)),
            topics=tuple(
                TopicSpec(name=name, replicas=((1, 2, 3),) * _PARTITIONS, bytes_each=MIB)
                for name in names
            ),
        ),
        clock,
    )
    moved = (TopicPartition(name, n) for name in names for n in range(_PARTITIONS))
    cluster.do(acts.Alter(dict.fromkeys(moved, (4, 2, 3))))
    clock.pass_time(rows / 200)  # at 100 MiB per second
    observer = Observer(cluster.reader(), clock)
    observation = await observer.poll()
    await observer.aclose()
    return observation
