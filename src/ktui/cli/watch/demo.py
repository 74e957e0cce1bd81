"""`ktui demo`: the live view on a simulated cluster that plays a scenario and runs its plan."""

from __future__ import annotations

import asyncio
import gc
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from click.shell_completion import CompletionItem

from ktui import __version__
from ktui.cli.context.config import config_dir, load_config
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import BadInput, need_terminal
from ktui.cli.options import common
from ktui.cli.options.outward import recorded_in_words, repair
from ktui.cli.output.plan_check import check_gate_open, gate_findings
from ktui.cli.output.view import read_keymap, show_app, temporary_folder
from ktui.cli.record_prune import ClusterRecording
from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cli.watch.story_ledger import BreakableStory, StoryLedger
from ktui.cluster.clock import Clock, PausableClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import ObservationSource, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.text import SIMULATED, clean, marked, simulated_id
from ktui.columns import table
from ktui.execution import RunProblem
from ktui.execution.broker.cordon import BrokerAccess
from ktui.execution.engine.engine import Engine
from ktui.execution.foreign_cancels import ListedReassignment, Settled
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.figures import CanaryFigure
from ktui.execution.host.launch import NewRun, make_run, prepare_run, reserve_start
from ktui.execution.host.operator_command import WhileCommand
from ktui.execution.host.ownership import CancelGateFile, LiveRun, Ownership, own_run
from ktui.execution.host.state_dir import RunDir, StateDir, default_name
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Owned
from ktui.execution.run.options import USUAL_POLL_S, RunOptions
from ktui.execution.run.run import Run
from ktui.ops.cancel import cancel_foreign
from ktui.ops.start import FactReader, Permits
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import Allowances, Finding
from ktui.planning.intents.layout import Layout, read_layout
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.progress.timeline import Timeline
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import ScaledClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.producers import Producers
from ktui.simulated.scenario.file import FASTEST, Scenario
from ktui.simulated.scenario.library import DEFAULT, load_scenario, shipped_names, shipped_path
from ktui.simulated.scenario.plan import submit_plan
from ktui.tui.app.demo import DemoApp, PlayNext, Story
from ktui.tui.app.simulated import poll_interval_s
from ktui.tui.draw.themes import load_themes
from ktui.tui.poll import Polled
from ktui.tui.run_view.launchers import PlanRehearser

_START_S = 2.0  # real seconds that the start of a run has, in threads, while time stands
ENGINE_POLLS = 10.0  # the most polls of an engine in one real second


class UnhurriedClock:
    """A clock by which nobody wakes too often in real time, however fast it runs."""

    def __init__(self, clock: PausableClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(max(seconds, self._clock.speed / ENGINE_POLLS))


class SimulatedEngines:
    """Runs engines as tasks of this process; each owns its run as a separate process would."""

    def __init__(
        self, cluster: SimulatedCluster, state_dir: StateDir, clock: PausableClock | None = None
    ) -> None:
        self._cluster, self._state_dir = cluster, state_dir
        self._clock: Clock = cluster.clock if clock is None else UnhurriedClock(clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._engines: list[Engine] = []

    def limits(self, named: Mapping[str, object]) -> Limits:
        return default_limits(named)

    @property
    def facts(self) -> FactReader:
        async def standing(cluster_id: str) -> tuple[Finding, ...]:
            return gate_findings(self._state_dir, cluster_id, "--cluster")

        return FactReader(
            reader=self._cluster.reader(),
            state=self._state_dir,
            clock=self._clock,
            cluster=self._cluster.spec.name,
            permits=self.permits,
            standing=standing,
        )

    permits: Permits | None = None  # nobody to ask: simulated brokers let anybody do anything
    throttle = ""
    canary = True  # the default: simulated producers measure an objective
    rehearser: PlanRehearser | None = None
    """Nothing: what would be rehearsed here is simulated already."""

    async def read_layout(self) -> Layout:
        return await read_layout(self._cluster.reader())

    async def check_throttle(self, run: Run, rates: ThrottleRates) -> None:
        """Allow everything: simulated brokers let anybody set a throttle."""

    async def start(self, wanted: NewRun) -> RunDir:
        facts = await msgspec.structs.replace(self.facts, standing=None).read(wanted.plan)
        cluster_id = facts.cluster_id
        options = msgspec.structs.replace(
            wanted.options,
            record=False,  # the demo deletes the folder at its end
            poll_s=USUAL_POLL_S,
            canary=True,  # an objective may be set at any time, and has no other figure here
        )
        first = prepare_run(msgspec.structs.replace(wanted, options=options), facts)

        def check_live(live: Sequence[LiveRun]) -> None:
            if live and not wanted.concurrent:
                raise RunProblem(f"run {live[0].name} is live on this cluster. Wait for its end")
            check_gate_open(self._state_dir, cluster_id, "--cluster")

        throttled, name = bool(options.throttle), wanted.name
        with reserve_start(
            self._state_dir, cluster_id, name, throttled=throttled, beside=check_live
        ):
            folder = make_run(self._state_dir, name, first, self._clock)
            self.launch(folder)
        return folder

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        self.launch(run, ask)

    async def cancel_foreign(
        self, moves: Collection[ListedReassignment]
    ) -> Mapping[TopicPartition, Settled]:
        ports = ClusterPorts(self._cluster.reader(), self._cluster.writer())
        return await cancel_foreign(ports, self._state_dir, self._clock, moves)

    @property
    def brokers(self) -> BrokerAccess:
        return BrokerAccess(self._cluster.reader(), self._clock, self._ports)

    @asynccontextmanager
    async def _ports(self) -> AsyncIterator[ClusterPorts]:
        yield ClusterPorts(self._cluster.reader(), self._cluster.writer())

    def launch(self, folder: RunDir, ask: Callable[[], None] | None = None) -> None:
        """Start the engine of a run that has been made, after `ask` has written its commands."""
        ownership = own_run(folder)
        try:
            if ask is not None:
                ask()
            journal = Journal.recover(folder.journal, self._clock)
        except BaseException:
            ownership.release()
            raise
        self.keep(asyncio.create_task(self._run_engine(folder, ownership, journal)))

    def keep(self, task: asyncio.Task[None]) -> None:
        """Keep a task until it is over, at the latest until the view closes."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_engine(self, folder: RunDir, ownership: Ownership, journal: Journal) -> None:
        async with AsyncExitStack() as held:
            held.callback(ownership.release)
            held.callback(journal.close)
            run = Run(folder.name).fold(journal.entries())
            ports = ClusterPorts(self._cluster.reader(), self._cluster.writer())
            observer = Observer(ports.reader, self._clock)
            held.push_async_callback(observer.aclose)
            cluster_id = self._cluster.spec.name
            engine = Engine(
                run,
                journal,
                self.watched(run, observer, lambda: engine.timelines),
                ports,
                self._clock,
                check_throttle=partial(check_one_throttle, self._state_dir, cluster_id, run.name),
                gate_shut=CancelGateFile(self._state_dir, cluster_id).words,
                lost=ownership.lost,
                forbids=WhileCommand().forbids,
                figure=CanaryFigure(Producers(self._cluster)),
            )
            self._engines.append(engine)
            held.callback(self._engines.remove, engine)
            owner = ownership.holder
            owned = Owned(pid=owner.pid, host=owner.host, user=owner.user)
            await self.execute(engine, run, owned)

    def watched(
        self,
        run: Run,
        source: ObservationSource,
        timelines: Callable[[], Mapping[TopicPartition, Timeline]],
    ) -> ObservationSource:
        del run, timelines
        return source

    async def execute(self, engine: Engine, run: Run, owned: Owned) -> None:
        del run
        await engine.execute(owned)

    async def aclose(self) -> None:
        for engine in self._engines:
            engine.leave("the view was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Stage(NamedTuple):
    """What a view of a simulated cluster plays on; it ends with the view."""

    state_dir: StateDir
    engines: SimulatedEngines
    app: dict[str, Any]  # the arguments of the view's app


@asynccontextmanager
async def set_stage(
    cluster: SimulatedCluster,
    clock: PausableClock,
    name: str,
    engines: Callable[[SimulatedCluster, StateDir, PausableClock], SimulatedEngines],
    recorder: Recorder | None = None,
) -> AsyncIterator[Stage]:
    """Make the observer, the engines and the state directory of a view, as long as it is open."""
    observer = Observer(cluster.reader(), clock)
    with temporary_folder(f"ktui-{name}-") as folder:
        state_dir = StateDir(folder)
        playing = engines(cluster, state_dir, clock)
        recording = None if recorder is None else ClusterRecording(observer, recorder, state_dir)
        app = {
            "observer": observer,
            "source": recording,
            "recorder": recorder,
            "clock": clock,
            "pictures": Path(),
            "themes": load_themes(config_dir() / "themes"),
            "state_dir": state_dir,
            "engines": playing,
            "brokers": playing.brokers,
            "verbs": ShellVerbs(),
            "keymap": read_keymap(load_config()),
        }
        try:
            yield Stage(state_dir, playing, app)
        finally:
            await playing.aclose()
            if recording is not None:
                await recording.aclose()
            await observer.aclose()


def _complete(
    _context: click.Context, _argument: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    return common.files_and((name for name in shipped_names() if name.startswith(begun)), begun)


@click.command("demo")
@click.argument("scenario", default=DEFAULT, metavar="[SCENARIO]", shell_complete=_complete)
@common.speed_option(
    0.1, FASTEST, "Simulate N seconds in each second; by default the scenario's own speed."
)
@add_option("--seed N", "Seed of the random events; 0 by default.", type=int, default=0)
@add_option("--tour", "Let the story press its keys by itself, in 3 minutes.")
@add_option("--list", "List the scenarios that come with ktui.", "only_list")
@add_option(
    "--pictures DIR",
    "Folder for pictures of the screen (ctrl+s); by default the current one.",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=Path(),
)
@add_option(
    "--record DIR",
    "Record each story in this folder, marked as simulated.",
    type=click.Path(file_okay=False, path_type=Path),
)
@common.theme_option
def command(  # noqa: PLR0913 - the options of the command line, each by its name
    scenario: str,
    *,
    speed: float | None,
    seed: int,
    tour: bool,
    only_list: bool,
    pictures: Path,
    record: Path | None,
    theme: str | None,
) -> None:
    """Show the live view on a simulated cluster. Needs neither Kafka nor Java.

    SCENARIO is the name of a scenario that comes with ktui (see --list), or a YAML file of yours.
    """
    if only_list:
        rows = [(name, load_scenario(shipped_path(name)).title) for name in shipped_names()]
        click.echo(table(("SCENARIO", "WHAT HAPPENS"), rows))
        return
    path = _find_scenario(scenario)
    story = load_scenario(path)
    if tour and not story.tour:
        raise BadInput(f"{clean(path.stem)} has no tour. Leave it out: {DEFAULT} has one")
    need_terminal("; `ktui demo --list` lists the scenarios")
    stories = _all_stories(path)
    chosen, at_speed = theme or load_config().theme, speed or story.speed
    while True:
        playing = Playing(story, clean(path.stem), seed, pictures, chosen, record, tour=tour)
        plays_next, played_at, chosen = asyncio.run(_play(playing, at_speed))
        gc.collect()  # a cluster and its app hold each other
        if plays_next is None:
            return
        if plays_next is PlayNext.AGAIN:
            at_speed = played_at
            continue
        path = stories[(stories.index(path) + plays_next.value) % len(stories)]
        story, tour = load_scenario(path), False
        at_speed = speed or story.speed


def _find_scenario(scenario: str) -> Path:
    if not scenario.strip():
        raise BadInput(f"no scenario was named. Choose one of {', '.join(shipped_names())}")
    if scenario in shipped_names():
        return shipped_path(scenario)
    path = Path(scenario)
    if path.exists() or path.suffix in (".yaml", ".yml") or path.name != scenario:
        return path
    known = ", ".join(shipped_names())
    raise BadInput(
        f"there is no scenario {scenario!r}. Choose one of {known}, or name a YAML file of yours"
    )


def _all_stories(first: Path) -> list[Path]:
    shipped = [shipped_path(name) for name in shipped_names()]
    return shipped if first in shipped else [first, *shipped]


class Playing(NamedTuple):
    """A scenario to be played, and how."""

    scenario: Scenario
    name: str
    seed: int = 0
    pictures: Path = Path()
    theme: str | None = None
    record: Path | None = None
    tour: bool = False


async def _play(playing: Playing, speed: float) -> tuple[PlayNext | None, float, str | None]:
    """Play a scenario once; return what to play next, and the last speed and theme."""
    clock = ScaledClock(speed, fastest=FASTEST)
    recorder = None if playing.record is None else recorder_of(playing.record, playing.name, clock)
    try:
        async with demo_app(playing, clock, recorder) as app:
            await show_app(app)
    finally:
        if recorder is not None:
            click.echo(recorded_in_words(recorder), err=True)
    return app.plays_next, clock.speed, app.theme


@asynccontextmanager
async def demo_app(
    playing: Playing, clock: ScaledClock, recorder: Recorder | None = None
) -> AsyncIterator[DemoApp]:
    """Start a simulated cluster with a scenario, and make an app for it; the caller runs the app.

    Args:
        recorder: records each poll, and the events of runs; closed at the end. The cluster has an
            id of its own then: stories overlap in time, for each begins now and runs fast.
    """
    scenario, name = playing.scenario, playing.name
    spec = scenario.spec
    if recorder is not None:
        own_id = simulated_id(f"{spec.name}-{secrets.token_hex(4)}")
        spec = msgspec.structs.replace(spec, name=own_id)
    cluster = SimulatedCluster(spec, clock, seed=playing.seed)
    for due in scenario.faults:
        cluster.schedule(due)
    ledger = StoryLedger(cluster)
    async with set_stage(cluster, clock, "demo", SimulatedEngines, recorder) as stage:
        how = stage.app | {"pictures": playing.pictures}
        if playing.tour:
            how["keymap"] = {}  # it presses the usual keys
        app = DemoApp(
            story=Story(name, scenario.title, scenario.about, scenario.captions, scenario.tour),
            ledger=ledger,
            twin=BreakableStory(cluster),
            plays_tour=playing.tour,
            theme=playing.theme,
            **how,
        )
        execute = _start_paced_run if scenario.limits != Limits() else _submit_at_once
        plan = asyncio.create_task(execute(scenario, cluster, app, stage.engines))
        try:
            app.disable_messages(Polled)  # there is no screen yet to draw it on
            starts_s = 0.0 if scenario.plan is None else scenario.plan.start_s
            await _play_ahead(app, ledger, clock, min(starts_s, scenario.opens_at_s))
            if starts_s < scenario.opens_at_s:
                await asyncio.wait([plan], timeout=_START_S)
                await _play_ahead(app, ledger, clock, scenario.opens_at_s - starts_s)
            app.enable_messages(Polled)
            yield app
        finally:
            plan.cancel()
            outcome = (await asyncio.gather(plan, return_exceptions=True))[0]
            if isinstance(outcome, Exception):
                raise outcome


async def _play_ahead(
    app: DemoApp, ledger: StoryLedger, clock: ScaledClock, seconds: float
) -> None:
    """Let the story's start pass at once, and the app poll it as if it had been open."""
    until_s = clock.monotonic() + seconds
    while (left_s := until_s - clock.monotonic()) > 0:
        await app.poll_loop.poll_once()
        ledger.look()
        await clock.leap(min(left_s, poll_interval_s(clock.speed)))


def recorder_of(folder: Path, story: str, clock: Clock) -> Recorder:
    """Return a recorder of a story, marked as simulated; repair what others left in the folder."""
    repair(folder.absolute())
    program = f"ktui {__version__} demo"
    return Recorder(folder.absolute(), clock, cluster=marked(story, SIMULATED), program=program)


async def _start_paced_run(
    scenario: Scenario, cluster: SimulatedCluster, app: DemoApp, engines: SimulatedEngines
) -> None:
    if scenario.plan is None:
        return
    await cluster.clock.sleep(scenario.plan.start_s)
    targets, throttle = scenario.plan.targets.items(), scenario.plan.throttle
    name = default_name(Path(f"{app.cluster_status().cluster_name}.json"))
    new_run = NewRun(
        name=name,
        plan=Plan(tuple(PartitionTarget(tp.topic, tp.partition, to) for tp, to in targets)),
        plan_name=f"{name}.json",
        limits=scenario.limits,
        allowed=Allowances(replication_factor_change=True, below_min_isr=True, slow=True),
        options=RunOptions(
            throttle=NO_THROTTLE if throttle is None else ThrottleRates(int(throttle))
        ),
    )
    try:
        run = await engines.start(new_run)
    except (ClusterError, RunProblem) as error:
        app.report_refusals((str(error),))
    else:
        app.show_run(run)


async def _submit_at_once(
    scenario: Scenario, cluster: SimulatedCluster, app: DemoApp, _engines: SimulatedEngines
) -> None:
    """Submit the plan at its time; the app shows what the cluster refuses."""
    if scenario.plan is None:
        return
    try:
        refused = await submit_plan(scenario.plan, scenario.spec, cluster.writer(), cluster.clock)
    except ClusterError as error:
        refused = (str(error),)
    app.report_refusals(refused)
