"""Recordings made like real ones and apps that play them, and pictures of running apps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from textual.pilot import Pilot

from ktui.cli.replay import join_sessions, replay_app
from ktui.cli.watch.demo import SimulatedEngines
from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Observer
from ktui.execution.host.kept import RunRecording
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import RunFollower
from ktui.recording.reading import find_sessions
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import Tape
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import OutsideEvent
from ktui.tui.replay.app import ReplayApp
from support.views.screens import Operating, resize
from support.views.watching import MIDDLE

Happenings = Mapping[float, Collection[OutsideEvent]]


class _AtOnce(ThreadPoolExecutor):
    """Runs what is to run in a thread at once: the cluster's time must not go on meanwhile."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def recorded_looks(
    folder: Path, looks: Iterable[Observation], *, clock: VirtualClock | None = None, **how: Any
) -> Path:
    """Record observations as they are, and return the folder."""
    recorder = Recorder(folder, clock or VirtualClock(), program="a test", **how)
    for look in looks:
        recorder.poll(look)
    recorder.close()
    assert recorder.problem is None
    return folder


class Course(NamedTuple):
    """The time for which a run is recorded, and the events of its cluster."""

    happenings: Happenings = MappingProxyType({})
    """The events of the cluster, by second."""
    most_s: float = 600.0
    """Seconds after which the run is left if it has not ended."""
    poll_s: float = 1.0
    """Seconds between two polls."""
    tail_s: float = 10.0
    """Seconds for which the cluster is polled after the run's end."""


USUAL = Course()


def recorded_run(
    state: StateDir,
    cluster: SimulatedCluster,
    wanted: NewRun,
    position: Course = USUAL,
    **how: Any,
) -> RunDir:
    """Execute a run on a simulated cluster, recorded as by its engine; see `record_run`."""
    return asyncio.run(record_run(state, cluster, wanted, position, **how))


async def record_run(
    state: StateDir,
    cluster: SimulatedCluster,
    wanted: NewRun,
    position: Course = USUAL,
    **how: Any,
) -> RunDir:
    """Execute a run on a simulated cluster, recorded as by its engine, and return its folder.

    Args:
        state: the state directory of the run.
        cluster: the cluster it runs on.
        wanted: the run.
        course: how long it is recorded, and the events of the cluster.
        how: further arguments of the recorder.
    """
    happenings, most_s, poll_s, tail_s = dict(position.happenings), *position[1:]
    clock = cluster.clock
    assert isinstance(clock, VirtualClock)
    engines = SimulatedEngines(cluster, state)
    observer = Observer(cluster.reader(), clock)
    asyncio.get_running_loop().set_default_executor(_AtOnce())
    starting = asyncio.create_task(engines.start(wanted))
    while not starting.done():
        await clock.advance(poll_s)
    run = starting.result()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    recorder = Recorder(run.recording, clock, **{"program": "a test", "cluster": "prod-eu", **how})
    events = RunRecording(recorder, run.name)
    began_s, over_s = clock.monotonic(), 0.0
    with RunFollower(run.journal, clock) as follower:
        while clock.monotonic() - began_s < most_s and over_s < tail_s:
            events.take(follower.refresh())
            looking = asyncio.create_task(observer.poll(NO_INTEREST))
            await clock.advance(poll_s)
            recorder.poll(await looking)
            for at_s in [at_s for at_s in happenings if at_s <= clock.monotonic() - began_s]:
                for act in happenings.pop(at_s):
                    cluster.do(act)
            over_s += poll_s if follower.run.ended else 0.0
    recorder.close()
    assert recorder.problem is None
    await engines.aclose()
    await observer.aclose()
    return run


def the_tape(path: Path) -> Tape:
    """Return the only recording in a folder."""
    (only,) = join_sessions(find_sessions(path))
    return Tape(only.sessions)


class Replaying(Operating[ReplayApp]):
    """A replay in a terminal, the real time (a virtual clock here), and the operator."""

    def __init__(self, app: ReplayApp, clock: VirtualClock, pilot: Pilot[None]) -> None:
        super().__init__(app, pilot)
        self.clock = clock

    @property
    def playing(self) -> Any:
        return self.app._playing

    @property
    def position_s(self) -> float:
        position = self.playing.position
        return float(position.at_s - position.from_s)

    @property
    def message(self) -> str:
        return "" if self.app.notification is None else self.app.notification.words

    async def pass_time(self, seconds: float) -> None:
        """Let real time pass, frame by frame, with each frame on the screen."""
        for _ in range(round(seconds * 10)):
            await self.clock.advance(0.1)
            await self.at_rest()

    async def press(self, *keys: str, say: str = "") -> None:
        """Press keys, and wait for their effect."""
        await self.pilot.press(*keys)
        await self.at_rest()
        if say:
            await self.say(say)

    async def at_rest(self) -> None:
        """Wait until everything due by now is on the screen."""
        await self.until(lambda: self.playing.at_rest)
        await self.pilot.pause()

    async def surveyed(self) -> None:
        """Wait until the whole recording is surveyed."""
        await self.until(lambda: self.playing.position.surveyed_s >= self.playing.position.until_s)
        await self.at_rest()


@asynccontextmanager
async def replaying(
    path: Path,
    size: tuple[int, int] = MIDDLE,
    *,
    at_s: float | None = None,
    name: str | None = None,
    **how: Any,
) -> AsyncIterator[Replaying]:
    """Play a recording in a terminal of a size, and wait for its first frame."""
    tape, clock = the_tape(path), VirtualClock()
    start_s = tape.first_look_s if at_s is None else tape.from_s + at_s
    with replay_app(tape, start_s, recording=name or str(path), real=clock, **how) as app:
        async with app.run_test(size=size, notifications=True) as pilot:
            replay = Replaying(app, clock, pilot)
            await replay.at_rest()
            yield replay


class Look(NamedTuple):
    """A theme, and the size of a terminal."""

    theme: str
    size: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.theme}-{self.size[0]}x{self.size[1]}"


class Album:
    """The pictures of an app that runs once, by what they show and how they are looked at."""

    def __init__(self) -> None:
        self._pictures: dict[tuple[str, Look], str] = {}

    async def take(self, what: str, pilot: Pilot[None], *looks: Look) -> None:
        """Take a picture of what is on the screen in each theme and size."""
        for look in looks:
            pilot.app.theme = look.theme
            await resize(pilot, look.size)
            await pilot.pause()
            self._pictures[what, look] = pilot.app.export_screenshot(simplify=True)

    def __call__(self, what: str, look: Look) -> str:
        return self._pictures[what, look]


def each_of(*looks: Look) -> pytest.MarkDecorator:
    """Return the mark of a test that compares the picture of each look."""
    return pytest.mark.parametrize("look", looks, ids=str)
