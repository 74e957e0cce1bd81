"""`ktui demo`: the live view on a simulated cluster that plays a scenario and runs its plan."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ktui.cli.context.config import config_dir, load_config
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import need_terminal
from ktui.cli.options import common
from ktui.cli.output.keymap import read_keymap
from ktui.cli.output.table import table
from ktui.cli.output.view import show_app, temporary_folder
from ktui.cli.watch.demo_launcher import SimulatedEngines
from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Observer
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir, default_name
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.simulated.clock import ScaledClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.scenario.library import DEFAULT, load_scenario, shipped_names, shipped_path
from ktui.simulated.scenario.record import FASTEST, Scenario
from ktui.simulated.scenario.submission import submit_plan
from ktui.tui.app.demo import DemoApp, Story
from ktui.tui.draw.themes import load_themes

POLL_EVERY_S = 1.0
"""Real seconds between two polls, unless `LONGEST_POLL_S` is shorter."""
LONGEST_POLL_S = 10.0
"""The cluster's seconds between two polls. With fewer polls, short moves would go unseen."""
ENGINE_POLLS = 4.0
"""The most polls of an engine in one real second."""
PATIENCE = 0.75
"""Share of the poll interval after which a poll goes on without a broker's answer."""


def _complete(
    _context: click.Context, _argument: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    return common.files_and((name for name in shipped_names() if name.startswith(begun)), begun)


@click.command("demo")
@click.argument("scenario", default=DEFAULT, metavar="[SCENARIO]", shell_complete=_complete)
@common.speed_option(
    0.1, FASTEST, "Simulate N seconds in each second; by default the scenario's own speed."
)
@click.option(
    "--seed", type=int, default=0, metavar="N", help="Seed of the random events; 0 by default."
)
@click.option("--list", "only_list", is_flag=True, help="List the scenarios that come with ktui.")
@common.theme_option
def command(
    scenario: str, *, speed: float | None, seed: int, only_list: bool, theme: str | None
) -> None:
    """Show the live view on a simulated cluster. Needs neither Kafka nor Java.

    SCENARIO is the name of a scenario that comes with ktui (see --list), or a YAML file of yours.
    """
    if only_list:
        rows = [(name, load_scenario(shipped_path(name)).title) for name in shipped_names()]
        click.echo(table(("SCENARIO", "WHAT HAPPENS"), rows))
        return
    path = find_scenario(scenario)
    story = load_scenario(path)
    need_terminal("; `ktui demo --list` lists the scenarios")
    chosen, again = theme or load_config().theme, True
    while again:
        again, chosen = asyncio.run(
            _play(story, clean(path.stem), speed or story.speed, seed=seed, theme=chosen)
        )
        gc.collect()  # a cluster and its app hold each other


def find_scenario(scenario: str) -> Path:
    """Return the file of a shipped scenario, or the file that the user named.

    Raises:
        BadInput: there is neither.
    """
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


async def _play(
    scenario: Scenario, name: str, speed: float, *, seed: int, theme: str | None
) -> tuple[bool, str | None]:
    """Play a scenario once; return whether to play it again, and the theme in use."""
    clock = ScaledClock(speed)
    async with demo_app(scenario, clock, name=name, seed=seed, speed=speed, theme=theme) as app:
        await show_app(app)
        return app.again, app.theme


@asynccontextmanager
async def demo_app(
    scenario: Scenario, clock: Clock, *, name: str, seed: int, speed: float, theme: str | None
) -> AsyncIterator[DemoApp]:
    """Start a simulated cluster with a scenario, and make an app for it; the caller runs the app.

    Args:
        scenario: the scenario.
        clock: the cluster's clock, which the app shows.
        name: the cluster's name on the screen.
        seed: the seed of all random events.
        speed: how many seconds of the clock pass in one real second.
        theme: the theme to start with.
    """
    cluster = SimulatedCluster(scenario.spec, clock, seed=seed)
    for due in scenario.faults:
        cluster.schedule(due)
    interval_s = min(POLL_EVERY_S * speed, LONGEST_POLL_S)
    observer = Observer(cluster.reader(), clock, patience_s=PATIENCE * interval_s)
    with temporary_folder("ktui-demo-") as folder:
        state_dir = StateDir(folder)
        engines = SimulatedEngines(cluster, state_dir, poll_s=max(1.0, speed / ENGINE_POLLS))
        app = DemoApp(
            observer,
            story=Story(name, scenario.title, scenario.about, speed),
            poll_interval_s=interval_s,
            theme=theme,
            themes=load_themes(config_dir() / "themes"),
            clock=clock,
            state_dir=state_dir,
            engines=engines,
            verbs=ShellVerbs(),
            keymap=read_keymap(load_config()),
        )
        execute = _start_paced_run if scenario.limits != Limits() else _submit_at_once
        plan = asyncio.create_task(execute(scenario, cluster, app, engines))
        try:
            yield app
        finally:
            plan.cancel()
            await engines.aclose()
            await observer.aclose()
            outcome = (await asyncio.gather(plan, return_exceptions=True))[0]
            if isinstance(outcome, Exception):
                raise outcome


async def _start_paced_run(
    scenario: Scenario, cluster: SimulatedCluster, app: DemoApp, engines: SimulatedEngines
) -> None:
    """Start a run of the plan at its time, with the scenario's limits and throttle."""
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
        allowed=Allowances(replication_factor_change=True, below_min_isr=True),
        throttle=NO_THROTTLE if throttle is None else ThrottleRates(int(throttle)),
    )
    try:
        run = await engines.start(new_run)
    except (ClusterError, RunProblem) as error:
        app.report_refusals((str(error),))
    else:
        app.call_later(app.attach_to, run)


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
