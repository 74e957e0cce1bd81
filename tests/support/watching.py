"""The whole app over a scripted cluster, driven by keys; every wait is for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from textual.pilot import Pilot

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.tui.app import KtuiApp
from ktui.tui.themes import LoadedThemes, load_themes
from ktui.tui.widgets.partition_list import PartitionList
from support.observations import START, a_move, a_partition, an_observation
from support.screens import screen_text

SMALL, MIDDLE, LARGE = (80, 24), (120, 30), (200, 60)
Seen = Observation | Exception


class StillClock:
    """Stands still until a test moves it on; waiting costs nothing."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


class Script:
    """Answers each poll with what the test says next, and waits for it."""

    def __init__(self) -> None:
        self.interests: list[Interest] = []
        self._next: asyncio.Queue[Seen] = asyncio.Queue()
        self.taken = 0

    def say(self, seen: Seen) -> None:
        self._next.put_nowait(seen)

    async def poll(self, interest: Interest) -> Observation:
        self.interests.append(interest)
        seen = await self._next.get()
        self.taken += 1
        if isinstance(seen, Exception):
            raise seen
        return seen


class Watching:
    """A running app, its cluster and its operator."""

    def __init__(self, app: KtuiApp, script: Script, clock: StillClock, pilot: Pilot[None]) -> None:
        self.app = app
        self.script = script
        self.clock = clock
        self.pilot = pilot

    async def see(self, *observations: Observation) -> None:
        """Let the cluster answer polls, and wait until the last is on the screen."""
        for observation in observations:
            self.clock.seconds = observation.monotonic_s
            self.script.say(observation)
            await self.until(lambda seen=observation: self.app.progress.last is seen)  # type: ignore[misc] # the default binds the loop's value
        await self.pilot.pause()

    async def lose(self, error: ClusterError) -> None:
        """Let a poll fail as a whole."""
        taken = self.script.taken
        polls = len(self.script.interests)
        self.script.say(error)
        await self.until(lambda: self.script.taken > taken and len(self.script.interests) > polls)
        await self.pilot.pause()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something to become true."""
        async with asyncio.timeout(30):
            while not condition():
                await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        named = {" ": "space", ":": "colon", "-": "minus", "/": "slash", ",": "comma"}
        await self.press(*(named.get(character, character) for character in text))

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def partitions(self) -> PartitionList:
        return self.app.watch_screen.partition_list

    @property
    def rows(self) -> list[str]:
        """The names of the partitions in the order in which they stand."""
        return [str(tp) for tp in self.partitions.arrangement.rows]

    @property
    def cursor(self) -> str:
        return str(self.partitions.cursor)

    def line(self, words: str) -> str:
        """The line of the screen that has these words in it."""
        found = [line for line in self.lines if words in line]
        assert found, f"no line has {words!r} in it:\n{self.text}"
        return found[0]


def an_app(
    script: Script,
    clock: StillClock,
    *,
    theme: str | None = None,
    themes: LoadedThemes | None = None,
    topics: Iterable[str] = (),
) -> KtuiApp:
    return KtuiApp(
        script,
        cluster_name="prod-eu",
        read_only=True,
        poll_interval_s=1.0,
        theme=theme,
        themes=themes or load_themes(None),
        topics=frozenset(topics),
        clock=clock,
    )


@asynccontextmanager
async def watching(size: tuple[int, int] = MIDDLE, **how: Any) -> AsyncIterator[Watching]:
    """Run the app in a terminal of a size."""
    script, clock = Script(), StillClock()
    app = an_app(script, clock, **how)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield Watching(app, script, clock, pilot)


def moves(*names: str, at_s: float = 0.0, **more: Any) -> Observation:
    """A poll that sees these partitions moving from (1, 2, 3) to (4, 2, 3)."""
    return an_observation([a_move(tp(name)) for name in names], at_s, **more)


def quiet(at_s: float = 0.0, **more: Any) -> Observation:
    """A poll of a cluster in which nothing moves."""
    return an_observation([], at_s, **more)


def resting(*names: str, at_s: float = 0.0, **more: Any) -> Observation:
    """A poll that sees these partitions, which do not move."""
    return an_observation([a_partition(tp(name)) for name in names], at_s, **more)


def tp(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
