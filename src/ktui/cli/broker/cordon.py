"""`ktui broker cordon` and `uncordon`: keep new partitions from a broker, and let them come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import click

from ktui.cli.broker.read import broker_argument
from ktui.cli.context.claim import CORDON_CLAIM, check_no_other_owner, claim_request
from ktui.cli.context.cluster import Cluster, ClusterChoice, warn_of_tls
from ktui.cli.context.errors import BadInput
from ktui.cli.context.ownership_options import take_over_option
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cluster.clock import SystemClock
from ktui.cluster.cordon import CORDONED
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.text import clean
from ktui.execution.broker.cordon import Cordoner, CordonState, down_words
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.planning.names import join_all

_dry_run_option = click.option("--dry-run", is_flag=True, help="Show the change, and send nothing.")

Act = Callable[[Cordoner], Awaitable[None]]


@click.command("cordon")
@broker_argument
@click.option(
    "--log-dir",
    "paths",
    metavar="PATH",
    multiple=True,
    help="Only this log dir, as `ktui broker status` shows it; may be repeated.",
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
    choice: ClusterChoice,
    broker: int,
    state: StateDir,
    act: Act,
    *,
    take_over: bool,
    dry_run: bool,
) -> None:
    """Act on the cluster, unless another state directory owns it."""
    cluster = choice.target(changes=not dry_run).cluster
    warn_of_tls(cluster)

    async def acted() -> None:
        async with aclosing(cluster.reader()) as reader, aclosing(cluster.writer()) as writer:
            described = await reader.describe_cluster()
            if broker not in described.online:
                raise BadInput(down_words(broker, described.online))
            if not dry_run:
                await check_owner(
                    cluster, state, described.cluster_id, CORDON_CLAIM, take_over=take_over
                )
            await act(Cordoner(ClusterPorts(reader, writer), broker, SystemClock()))

    try:
        asyncio.run(acted())
    except KeyboardInterrupt:
        print_note(
            "interrupted: the change may have been sent. To see what is in force: "
            f"ktui broker status {broker}"
        )
        raise


async def check_owner(
    cluster: Cluster,
    state: StateDir,
    cluster_id: str,
    verb: str,
    *,
    take_over: bool,
    off: bool = False,
) -> None:
    """Check before a change that no other state directory owns the cluster.

    Args:
        cluster: the cluster.
        state: the state directory.
        cluster_id: the id of the cluster.
        verb: the name in a claim, where a run would be.
        take_over: whether to take the cluster over from another owner.
        off: whether to do without ownership.

    Raises:
        RunRefused: another one owns it, and it is not to be taken over.
    """
    claim = claim_request(cluster, state, cluster_id, verb, off=off, take_over=take_over)
    if claim is not None:
        await check_no_other_owner(claim)


def _check_paths(now: CordonState, paths: tuple[str, ...]) -> None:
    unknown = [path for path in paths if path not in now.paths]
    if unknown:
        raise BadInput(
            f"--log-dir {clean(unknown[0])}: broker {now.broker} has {join_all(now.paths)}"
        )
