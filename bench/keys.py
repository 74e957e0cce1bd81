"""From a key to the frame that answers it, in a list of 1,000, 10,000 and 100,000 partitions."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from datetime import UTC, datetime
from typing import Any

from textual import events
from textual.app import App, ComposeResult

from bench.timing import percentile
from ktui.cluster.broker import Broker
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.tui.themes import role_defaults
from ktui.tui.widgets.moment import Moment
from ktui.tui.widgets.partition_list import PartitionList

SIZE = (200, 60)
KEYS = 200
MIX = ("down", "down", "down", "pagedown", "up", "end", "home", "pagedown", "pageup", "down")


class Frames(App[None]):
    """A list alone; notes when each frame has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.painted = asyncio.Event()

    def compose(self) -> ComposeResult:
        """Show the list."""
        yield PartitionList()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give the roles their colours."""
        return role_defaults(self.current_theme)

    def _display(self, screen: Any, renderable: Any) -> None:
        # Textual has no public sign that a frame is out; this is where it writes one.
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
    observation = _moving(rows)
    progress = fold(Progress(), observation)
    app = Frames()
    async with app.run_test(size=SIZE) as pilot:
        shown = app.query_one(PartitionList)
        shown.focus()
        shown.show(progress.timelines, Moment(observation.monotonic_s))
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


def _moving(rows: int) -> Observation:
    states = [_state(TopicPartition(f"topic-{n // 100:04}", n % 100)) for n in range(rows)]
    ends = {Replica(s.tp, 1): Reading(1_000_000, 0.0) for s in states}
    ends |= {Replica(s.tp, 4): Reading(500_000, 0.0) for s in states}
    return Observation(
        cluster_id="bench",
        controller=1,
        brokers={b: Broker(b) for b in range(1, 6)},
        partitions={s.tp: s for s in states},
        ends=ends,
        starts={s.tp: Reading(0, 0.0) for s in states},
        at=datetime(2026, 1, 1, tzinfo=UTC),
        monotonic_s=0.0,
        took_s=0.0,
    )


def _state(tp: TopicPartition) -> PartitionState:
    return PartitionState(tp, "id", (4, 2, 3, 1), (1, 2, 3), 1, 7, adding=(4,), removing=(1,))
