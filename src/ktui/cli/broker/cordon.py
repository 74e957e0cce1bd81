"""`ktui broker cordon`, `uncordon`, `unregister`: what Kafka itself can do about a broker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import click

from ktui.cli.broker.status import broker_argument
from ktui.cli.context.claim import CORDON_CLAIM, OwnerChoice, check_owner, take_over_option
from ktui.cli.context.cluster import ClusterChoice, ControllerChoice, warn_of_tls
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import NOT_ALL_DONE, BadInput, confirm, telling_interrupts
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options, controller_options
from ktui.cluster.clock import SystemClock
from ktui.cluster.settings import CORDONED
from ktui.cluster.text import clean
from ktui.execution.broker.cordon import Cordoner, CordonState, down_words
from ktui.execution.broker.unregister import check_unregister, kept_text, unregister_for_good
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.ops.broker.runs import runs_on
from ktui.planning.plan import join_all

_dry_run_option = add_option("--dry-run", "Show the change, and send nothing.")

Act = Callable[[Cordoner], Awaitable[None]]


@click.command("cordon")
@broker_argument
@add_option(
    "--log-dir PATH",
    "Only this log dir, as `ktui broker status` shows it; may be repeated.",
    "paths",
    multiple=True,
)
@cluster_options
@_dry_run_option
@take_over_option
@common.state_dir_option
def cordon(
    broker: int,
    choice: ClusterChoice,
    *,
    paths: tuple[str, ...],
    dry_run: bool,
    take_over: bool,
    state: StateDir,
) -> None:
    """Keep new partitions from broker ID.

    Needs Kafka 4.3 or later. Sets cordoned.log.dirs of the broker, and reads back that the broker
    has it in force. Replicas that are there stay. On Kafka 4.3, reassignments may still bring
    others. From 4.4 on, Kafka refuses every list that names a cordoned broker: demote it first.
    """

    async def act(cordoner: Cordoner) -> None:
        before = await cordoner.read()
        _check_paths(before, paths)
        value = before.with_cordons(paths)
        if before.has(value):
            click.echo(
                f"nothing to do: broker {broker} is cordoned already: {clean(before.summary)}"
            )
            return
        click.echo(f"broker {broker}: {CORDONED}: {clean(before.value)} -> {clean(value)}")
        if dry_run:
            click.echo("nothing was sent")
            return
        click.echo(clean((await cordoner.cordon(before, value)).outcome))

    _run(choice, broker, state, act, take_over=take_over, dry_run=dry_run)


@click.command("uncordon")
@broker_argument
@cluster_options
@_dry_run_option
@take_over_option
@common.state_dir_option
def uncordon(
    broker: int, choice: ClusterChoice, *, dry_run: bool, take_over: bool, state: StateDir
) -> None:
    """Let new partitions come to broker ID again.

    Shows the cordon, whoever has set it, and removes it. What the broker's properties file cordons
    stays cordoned, and ktui says so.
    """

    async def act(cordoner: Cordoner) -> None:
        before = await cordoner.read()
        if before.setting.own is None:
            if before.cordoned:
                raise RunRefused(f"nothing was sent: {clean(before.by_file)}")
            click.echo(f"nothing to do: broker {broker} has no cordon")
            return
        click.echo(f"broker {broker}: {CORDONED}: {clean(before.value)} -> not set")
        if dry_run:
            click.echo("nothing was sent")
            return
        after = await cordoner.uncordon()
        if after.cordoned:
            raise RunProblem(f"the setting is removed, but {clean(after.by_file)}")
        click.echo(clean(after.outcome))

    _run(choice, broker, state, act, take_over=take_over, dry_run=dry_run)


def _run(
    choice: ClusterChoice, broker: int, state: StateDir, act: Act, *, take_over: bool, dry_run: bool
) -> None:
    cluster = choice.target(changes=not dry_run).cluster
    warn_of_tls(cluster)

    async def acted() -> None:
        async with cluster.ports() as ports:
            described = await ports.reader.describe_cluster()
            if broker not in described.online:
                raise BadInput(down_words(broker, described.online))
            if not dry_run:
                ownership = OwnerChoice(take_over)
                await check_owner(cluster, state, described.cluster_id, CORDON_CLAIM, ownership)
            await act(Cordoner(ports, broker, SystemClock()))

    with telling_interrupts(
        "interrupted: the change may have been sent. To see what is in force: ktui broker status "
        f"{broker}"
    ):
        asyncio.run(acted())


def _check_paths(now: CordonState, paths: tuple[str, ...]) -> None:
    unknown = [path for path in paths if path not in now.paths]
    if unknown:
        raise BadInput(
            f"--log-dir {clean(unknown[0])}: broker {now.broker} has {join_all(now.paths)}"
        )


CLAIM = "ktui broker unregister"
YES = "--yes"
GOES_FIRST = (
    "its throttles and its cordon go first, through a controller: they would outlive its "
    "registration. Other settings of its id stay"
)


@click.command("unregister")
@broker_argument
@add_option("--dry-run", "Check everything, and send nothing.")
@add_option(YES, "Unregister the broker without asking.")
@cluster_options
@controller_options
@take_over_option
@common.state_dir_option
def command(
    broker: int,
    choice: ClusterChoice,
    controllers: ControllerChoice,
    *,
    dry_run: bool,
    yes: bool,
    take_over: bool,
    state: StateDir,
) -> None:
    """Remove broker ID from the cluster, once it is down for good and holds nothing.

    Kafka itself would unregister any broker. ktui refuses while the broker is up, while any
    partition has it among its replicas, and while a run brings replicas to it. It reads back that
    the broker is gone. A broker that is started again registers again.

    Before that it deletes the broker's throttles and cordon through a controller: they would bind
    the next broker of this id.

    Exit code 0 if it is gone, 3 if it is gone and these settings may have stayed, 2 if nothing was
    changed, 1 if it stays without these settings, or nobody knows.
    """
    cluster = controllers.of(choice.target(changes=not dry_run).cluster)
    warn_of_tls(cluster)
    runs_of = runs_on(state)

    async def check() -> None:
        async with aclosing(cluster.reader()) as reader:
            found = await check_unregister(reader, broker, runs_of)
        if not (dry_run or take_over):
            await check_owner(cluster, state, found.cluster_id, CLAIM)

    async def send() -> str | None:  # it reads everything again after the question
        async with cluster.ports() as ports:
            cluster_id = (await ports.reader.describe_cluster()).cluster_id
            await check_owner(cluster, state, cluster_id, CLAIM, OwnerChoice(take_over))
            return await unregister_for_good(ports, broker, SystemClock(), runs_of, click.echo)

    asyncio.run(check())
    click.echo(f"broker {broker} is down, and no partition has it among its replicas")
    click.echo(GOES_FIRST)
    if dry_run:
        click.echo("nothing was sent")
        return
    if not yes:
        confirm(lambda: typed_id(broker), YES)
    with telling_interrupts(
        "interrupted: the request may have been sent. To see whether the broker is still "
        f"registered: ktui broker status {broker}"
    ):
        kept = asyncio.run(send())
    click.echo(f"broker {broker} is no longer registered")
    if kept is not None:
        click.echo(kept_text(broker, kept))
        sys.exit(NOT_ALL_DONE)


def typed_id(broker: int) -> bool:
    """Ask the operator for the broker's id, and return whether that was typed."""
    typed = click.prompt(
        f"To unregister broker {broker}, type its id", default="", show_default=False
    )
    return str(typed).strip() == str(broker)
