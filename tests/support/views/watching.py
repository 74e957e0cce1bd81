"""The whole app over a simulated cluster, driven by keys; every wait is for a condition."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from ktui.cli.watch.demo import SimulatedEngines
from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.options import RunOptions
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan, plan_as_json
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import OutsideEvent
from ktui.simulated.twin import ClusterTwin, take_twin
from ktui.simulated.twin_parts import rates_of
from ktui.tui.app.app import KtuiApp
from ktui.tui.draw.themes import LoadedThemes
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.screens.plan.panes import PreviewPane
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.widgets.header import StatusHeader
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import a_cluster, tp
from support.views.screens import SHIPPED, Operating, resize

SMALL, MIDDLE, LARGE = (80, 24), (120, 30), (200, 60)
POLL_S = 1.0
RECOVERY_S = 15.0
"""Longer than a session timeout, the start of a broker, and the pause until the next poll."""
_PATIENCE_S = 120.0
"""Seconds within which any poll is folded, also of very many partitions on a busy machine."""
_TURNS = 100
"""Turns of the event loop within which a poll is over, unless it waits for a broker that hangs."""


class Looks:
    """Polls a cluster through an observer of its own, and notes when and with which interest."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._observer = Observer(cluster.reader(), cluster.clock)
        self.aclose = self._observer.aclose
        self.settings_changed = self._observer.settings_changed
        self.interests: list[Interest] = []
        self.at_s: list[float] = []
        self.over = 0
        self.last: Observation | None = None

    @property
    def under_way(self) -> bool:
        return self.over < len(self.at_s)

    async def poll(self, interest: Interest) -> Observation:
        self.interests.append(interest)
        self.at_s.append(self._clock.monotonic())
        try:
            self.last = await self._observer.poll(interest)
        finally:
            self.over += 1
        return self.last


class Watching(Operating[KtuiApp]):
    """A running app, its cluster, the cluster's time and the operator."""

    def __init__(
        self, app: KtuiApp, looks: Looks, cluster: SimulatedCluster, pilot: Pilot[None]
    ) -> None:
        super().__init__(app, pilot)
        self.looks, self.cluster = looks, cluster
        self._poll_s = app.cluster_status().interval_s

    @property
    def clock(self) -> VirtualClock:
        assert isinstance(self.cluster.clock, VirtualClock)
        return self.cluster.clock

    async def begin(self) -> None:
        """Wait until the first poll is on the screen."""
        await self.until(lambda: self.looks.at_s)
        await self._taken_in()
        await self.pilot.pause()
        await self.until(lambda: not self.text.isspace())

    async def do(self, *happening: OutsideEvent) -> None:
        """Apply events to the cluster, and wait until the next poll is on the screen."""
        for act in happening:
            self.cluster.do(act)
        await self.see()

    async def see(self) -> None:
        """Wait until the next poll is on the screen."""
        await self.pass_time(self._poll_s)

    async def press_and_see(self, *keys: str) -> None:
        await self.press(*keys)
        await self.see()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass poll by poll. Each poll is folded, and the last one is on the screen."""
        left = seconds
        with self.app.batch_update():  # the terminal is not painted again for each
            while left > 0:
                await self.clock.advance(min(self._poll_s, left))
                await self._taken_in()
                left -= self._poll_s
        for screen in self.app.screen_stack:  # also those below a dialog
            screen.check_idle()
        await self.pilot.pause()

    async def lose(self) -> None:
        """Kill every broker, and wait until the next poll has failed."""
        await self.do(*map(layout.Kill, self.cluster.machines))

    async def recover(self) -> None:
        """Start every broker, and wait until they are up and have been polled."""
        await self.do(*map(layout.Start, self.cluster.machines))
        await self.pass_time(RECOVERY_S)

    async def _taken_in(self) -> None:
        """Wait until the last poll is folded, unless it waits for a broker."""
        async with asyncio.timeout(_PATIENCE_S):
            turns = 0
            while turns < _TURNS if self.looks.under_way else self._behind:
                turns += 1
                await asyncio.sleep(0 if turns < _TURNS else 0.001)

    @property
    def _behind(self) -> bool:
        drawn = [header._status for header in self.app.watch_screen.query(StatusHeader)]
        return not self.looks.at_s or not any(s and s.last is self.looks.last for s in drawn)

    async def resize(self, size: tuple[int, int]) -> None:
        await resize(self.pilot, size)
        await self.pilot.pause()

    @property
    def partitions(self) -> PartitionList:
        return self.app.watch_screen.partition_list

    @property
    def rows(self) -> list[str]:
        """The names of the partitions in the order of the rows."""
        return [str(tp) for tp in self.partitions.arrangement.rows]

    @property
    def cursor(self) -> str:
        return str(self.partitions.cursor)

    @property
    def dialog(self) -> list[str]:
        """The lines in the box of the dialog."""
        box = self.app.screen.query_one(".dialog").content_region
        return [line[box.x : box.right].rstrip() for line in self.lines[box.y : box.bottom]]

    def dialog_line(self, words: str) -> str:
        """Return the line of the dialog that contains these words."""
        found = [line for line in self.dialog if words in line]
        assert found, f"no line of the dialog has {words!r} in it:\n{self.text}"
        return found[0]

    def row(self, name: str) -> str:
        """Return the row of a partition, without the pane beside it."""
        rows = (line.split("│")[0] for line in self.lines)
        found = [row for row in rows if row.lstrip("▌◆ ").split(" ")[0] == name]
        assert found, f"no row is of {name!r}:\n{self.text}"
        return found[0]


def an_app(
    cluster: SimulatedCluster,
    looks: Looks | None = None,
    *,
    theme: str | None = None,
    themes: LoadedThemes | None = None,
    topics: Iterable[str] = (),
    poll_s: float = POLL_S,
    **how: Any,
) -> KtuiApp:
    return KtuiApp(
        looks or Looks(cluster),
        cluster_name="prod-eu",
        **{"read_only": True, **how},
        poll_interval_s=poll_s,
        theme=theme,
        themes=themes or SHIPPED,
        topics=frozenset(topics),
        clock=cluster.clock,
    )


@asynccontextmanager
async def watching(
    cluster: SimulatedCluster, size: tuple[int, int] = MIDDLE, **how: Any
) -> AsyncIterator[Watching]:
    """Run the app in a terminal of a size, and wait for the first poll."""
    looks = Looks(cluster)
    app = an_app(cluster, looks, **how)
    async with app.run_test(size=size, notifications=True) as pilot:
        watch = Watching(app, looks, cluster, pilot)
        await watch.begin()
        yield watch
    await looks.aclose()


NAME = "drain-3"
ELSEWHERE = (4, 5, 6)
ONE_BY_ONE = Limits(replicas=1, partitions=1)


def a_quiet_cluster(*names: str, **how: Any) -> SimulatedCluster:
    """Return a cluster with these partitions at rest on ORIGINAL; a copy takes some seconds."""
    return a_cluster(resting=names, **{"messages": 5_000, **how})


def moved(*names: str, target: tuple[int, ...] = ELSEWHERE) -> dict[TopicPartition, Any]:
    """Return a plan that moves all of them to one place."""
    return dict.fromkeys(map(tp, names), target)


def a_new_run(
    targets: Mapping[TopicPartition, tuple[int, ...]],
    limits: Limits,
    name: str = NAME,
    throttle: str = "none",
) -> NewRun:
    return NewRun(
        name=name,
        plan=plan_of(targets),
        plan_name=f"{name}.json",
        limits=limits,
        allowed=Allowances(replication_factor_change=True, below_min_isr=True),
        options=RunOptions(throttle=parse_throttle_rates(throttle)),
    )


class RunWatched(Watching):
    """A running app that is attached to a run, and the engine of that run."""

    engines: SimulatedEngines
    state_dir: StateDir
    run: RunDir

    @property
    def attached(self) -> AttachedRun:
        assert self.app.attached is not None
        return self.app.attached

    async def pass_until(self, words: str, *, most_s: float = 300.0) -> None:
        """Let time pass, poll by poll, until the screen shows some words."""
        until_s = self.clock.monotonic() + most_s
        while words not in self.text:
            assert self.clock.monotonic() < until_s, f"{words!r} never came:\n{self.text}"
            await self.see()

    async def kill_engine(self) -> None:
        await self.engines.aclose()
        await self.see()


def scratch() -> TemporaryDirectory[str]:
    """Make a folder, in memory where tests have theirs."""
    return TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))


@asynccontextmanager
async def watching_runs(
    cluster: SimulatedCluster,
    *,
    folder: Path | None = None,
    size: tuple[int, int] = MIDDLE,
    write: bool = True,
    **how: Any,
) -> AsyncIterator[RunWatched]:
    """Run the app beside a state directory, in a folder or of its own; wait for the first poll."""
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(scratch()))
        state_dir = StateDir(place / "state")
        engines = SimulatedEngines(cluster, state_dir)
        looks = Looks(cluster)
        app = an_app(
            cluster,
            looks,
            read_only=not write,
            state_dir=state_dir,
            engines=engines,
            brokers=engines.brokers,
            verbs=ShellVerbs(),
            **how,
        )
        async with app.run_test(size=size, notifications=True) as pilot:
            watch = RunWatched(app, looks, cluster, pilot)
            watch.engines, watch.state_dir = engines, state_dir
            watch.run = state_dir.run(NAME)
            await watch.begin()
            yield watch
        await engines.aclose()
        await looks.aclose()


@asynccontextmanager
async def watching_run(
    cluster: SimulatedCluster,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    limits: Limits = ONE_BY_ONE,
    throttle: str = "none",
    **how: Any,
) -> AsyncIterator[RunWatched]:
    """Start a run, and watch it in the app that is attached to it."""
    async with watching_runs(cluster, **how) as watch:
        run = await watch.engines.start(a_new_run(targets, limits, throttle=throttle))
        watch.app.call_later(watch.app.attach_to, run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.see()
        yield watch


_OF_CLUSTER = ("messages", "inbound_s", "copied_s", "configs", "racks")


def watching_moves(*names: str, **how: Any) -> AbstractAsyncContextManager[RunWatched]:
    """Watch a run that moves these partitions of a quiet cluster, as `how` says of both."""
    of_cluster = {name: how.pop(name) for name in _OF_CLUSTER if name in how}
    return watching_run(a_quiet_cluster(*names, **of_cluster), moved(*names), **how)


async def open_dialog(watch: RunWatched, *keys: str) -> None:
    """Open the cancel dialog, choose, and poll the chosen partitions."""
    await watch.press("c", *keys)
    await watch.see()
    await watch.see()


async def carry_out(watch: RunWatched, *keys: str) -> None:
    """Choose in the cancel dialog, and confirm the choice."""
    await open_dialog(watch, *keys)
    await watch.press("y")
    await watch.see()
    await watch.see()


def state_of(watch: RunWatched, name: str) -> State:
    """Return the state of a partition in the run."""
    return watch.attached.run.tracks[tp(name)].state


def asked(watch: RunWatched) -> list[object]:
    """Return the commands to the run that are not answered yet."""
    return [each.command for each in watch.attached._commands.asked()]


def known(watch: RunWatched, name: str) -> Registration:
    """Return a partition as the controller has it."""
    found = watch.cluster.controller.get(tp(name))
    assert found is not None
    return found


def a_plan_file(folder: Path, plan: Plan | str, name: str) -> Path:
    path = folder / name
    path.write_text(plan if isinstance(plan, str) else plan_as_json(plan), encoding="utf-8")
    return path


def plan_screen(watch: RunWatched) -> PlanScreen:
    screen = watch.app.screen
    assert isinstance(screen, PlanScreen)
    return screen


def field(watch: RunWatched, name: str) -> Input:
    return watch.app.screen.query_one(name, Input)


async def read(watch: RunWatched, path: Path | str) -> None:
    """Go back to the first step, and have a plan read."""
    await go_to(watch, "plan")
    field(watch, "#plan-path").value = str(path)
    field(watch, "#plan-path").focus()
    await watch.press("enter")


async def go_to(watch: RunWatched, step: str) -> None:
    """Go to a step by enter and escape, as far as the screen lets one."""
    screen = plan_screen(watch)
    names = [each.name for each in screen.STEPS]
    while names.index(screen.step.name) > names.index(step):
        await watch.press("escape")
    while screen.step.name != step:
        await settled(watch)
        before = screen.step.name
        await watch.press("enter")
        if screen.step.name == before:
            return


async def settled(watch: RunWatched) -> None:
    """Wait until the preview is that of what was typed."""
    await watch.until(lambda: not plan_screen(watch).computes)


async def confirm(watch: RunWatched, name: str) -> None:
    """Go on to the last step, and type the run's name there."""
    screen = plan_screen(watch)
    await go_to(watch, screen.STEPS[-1].name)
    await settled(watch)
    if screen.step is screen.STEPS[-1]:
        field(watch, "#plan-again").value = name
        field(watch, "#plan-again").focus()
        await watch.press("enter")


async def tick(watch: RunWatched, box: str, step: str) -> None:
    """Tick a box in its step."""
    await go_to(watch, step)
    watch.app.screen.query_one(box).focus()
    await watch.press("space")


def report(watch: RunWatched) -> str:
    """Return what is shown about the plan, in whatever step: what was read, found and computed."""
    screen = watch.app.screen
    found = [*map(screen.query_one, ("#plan-read", "#plan-findings")), *screen.query(".wrong")]
    words = [str(widget.render()) for widget in found]
    return "\n".join([*words, watch.app.screen.query_one(PreviewPane).text])


def answer_line(watch: RunWatched) -> str:
    return joined_words(str(watch.app.screen.query_one("#plan-answer").render()))


def joined_words(text: str) -> str:
    return " ".join(text.split())


class Twins:
    """Takes twins of a cluster without a measurement, and counts them."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.taken = 0

    async def __call__(self, plan: Plan) -> ClusterTwin:
        self.taken += 1
        reader, clock = self._cluster.reader(), self._cluster.clock
        return await take_twin(
            reader, clock, rates=lambda _id: rates_of(None), plan=plan, measure_s=0
        )
