"""`ktui demo`: the live view on a simulated cluster, with a story to watch and a plan running."""

from __future__ import annotations

import asyncio
import gc
import math
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from ktui.cli.context.config import config_dir, load_config
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import need_terminal
from ktui.cli.output.table import table
from ktui.cli.output.view import show_app
from ktui.cli.watch.demo_launcher import SimulatedEngines
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
"""Of our seconds, unless the next would come first."""
LONGEST_POLL_S = 10.0
"""Of the cluster's seconds: with fewer polls, short moves would begin and end unseen."""
ENGINE_POLLS = 4.0
"""How often an engine looks in one of our seconds, at most."""
PATIENCE = 0.75
"""Share of the poll interval after which a poll goes on without a broker's answer."""


def _number(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Refuse what a range lets through: nan is neither too small nor too large."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not a number.")
    return value


@click.command("demo")
@click.argument("scenario", default=DEFAULT, metavar="[SCENARIO]")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, FASTEST),
    callback=_number,
    metavar="N",
    help="How many of the cluster's seconds pass in one of yours; else as the scenario says.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Another seed, another course.")
@click.option("--list", "only_list", is_flag=True, help="Name the scenarios that come with ktui.")
@click.option("--theme", metavar="NAME", help="The colour theme to start with.")
def command(
    scenario: str, *, speed: float | None, seed: int, only_list: bool, theme: str | None
) -> None:
    """Show the live view on a simulated cluster. Needs neither Kafka nor Java.

    SCENARIO is the name of one that comes with ktui (--list), or a file of your own.
    """
    if only_list:
        rows = [(name, load_scenario(shipped_path(name)).title) for name in shipped_names()]
        click.echo(table(("SCENARIO", "WHAT HAPPENS"), rows))
        return
    path = find(scenario)
    story = load_scenario(path)
    need_terminal("; `ktui demo --list` names every story")
    chosen, again = theme or load_config().theme, True
    while again:
        again, chosen = asyncio.run(
            _play(story, clean(path.stem), speed or story.speed, seed=seed, theme=chosen)
        )
        gc.collect()  # a cluster and its app hold each other


def find(scenario: str) -> Path:
    """Give the file of a shipped scenario, or the file that is named.

    Raises:
        BadInput: there is neither.
    """
    if not scenario.strip():
        raise BadInput(f"no scenario was named; there are {', '.join(shipped_names())}")
    if scenario in shipped_names():
        return shipped_path(scenario)
    path = Path(scenario)
    if path.exists() or path.suffix in (".yaml", ".yml") or path.name != scenario:
        return path
    known = ", ".join(shipped_names())
    raise BadInput(f"no scenario {scenario!r}; there are {known}; or name a YAML file of your own")


async def _play(
    scenario: Scenario, name: str, speed: float, *, seed: int, theme: str | None
) -> tuple[bool, str | None]:
    """Play a scenario once; say whether it is to be played again, and in which theme."""
    clock = ScaledClock(speed)
    async with stage(scenario, clock, name=name, seed=seed, speed=speed, theme=theme) as app:
        await show_app(app)
        return app.again, app.theme


@asynccontextmanager
async def stage(
    scenario: Scenario, clock: Clock, *, name: str, seed: int, speed: float, theme: str | None
) -> AsyncIterator[DemoApp]:
    """Put up a cluster with its story under way, and an app to watch it, which is yet to be run.

    Args:
        scenario: the story.
        clock: the cluster's time, which the app shows.
        name: what the cluster is called on the screen.
        seed: of all that is left to chance.
        speed: how many of the clock's seconds pass in one of ours.
        theme: the theme to start with.
    """
    cluster = SimulatedCluster(scenario.spec, clock, seed=seed)
    for due in scenario.faults:
        cluster.schedule(due)
    interval_s = min(POLL_EVERY_S * speed, LONGEST_POLL_S)
    observer = Observer(cluster.reader(), clock, patience_s=PATIENCE * interval_s)
    folder = tempfile.TemporaryDirectory(prefix="ktui-demo-")
    state_dir = StateDir(Path(folder.name))
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
    )
    carried_out = _pace if scenario.limits != Limits() else _carry_out
    plan = asyncio.create_task(carried_out(scenario, cluster, app, engines))
    try:
        yield app
    finally:
        plan.cancel()
        await engines.aclose()
        await observer.aclose()
        outcome = (await asyncio.gather(plan, return_exceptions=True))[0]
        if isinstance(outcome, Exception):
            raise outcome
        folder.cleanup()


async def _pace(
    scenario: Scenario, cluster: SimulatedCluster, app: DemoApp, engines: SimulatedEngines
) -> None:
    """Start a run of the plan when it is due, under the limits and throttle of the scenario."""
    if scenario.plan is None:
        return
    await cluster.clock.sleep(scenario.plan.start_s)
    targets, throttle = scenario.plan.targets.items(), scenario.plan.throttle
    name = default_name(Path(f"{app.cluster_status().cluster_name}.json"))
    wanted = NewRun(
        name=name,
        plan=Plan(tuple(PartitionTarget(tp.topic, tp.partition, to) for tp, to in targets)),
        plan_name=f"{name}.json",
        limits=scenario.limits,
        allowed=Allowances(replication_factor_change=True, below_min_isr=True),
        throttle=NO_THROTTLE if throttle is None else ThrottleRates(int(throttle)),
    )
    try:
        run = await engines.start(wanted)
    except (ClusterError, RunProblem) as error:
        app.report_refusals((str(error),))
    else:
        app.call_later(app.attach_to, run)


async def _carry_out(
    scenario: Scenario, cluster: SimulatedCluster, app: DemoApp, _engines: SimulatedEngines
) -> None:
    """Submit the plan when it is due; what the cluster refuses is told on the screen."""
    if scenario.plan is None:
        return
    try:
        refused = await submit_plan(scenario.plan, scenario.spec, cluster.writer(), cluster.clock)
    except ClusterError as error:
        refused = (str(error),)
    app.report_refusals(refused)
