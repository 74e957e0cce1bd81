"""`ktui broker cordon` and `uncordon`: keep new partitions from a broker, and let them come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import click

from ktui.cli.broker.read import broker_argument
from ktui.cli.context.claim import check_no_other_owner, claim_request
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
from ktui.execution.broker.cordon import Cordoner, CordonState
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.planning.names import join_all
from ktui.quantities import as_count

CLAIM = "ktui broker cordon"
"""The name in an ownership claim, where a run would be."""
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
    has it in force. Replicas that are there stay, and reassignments may still bring others.
    """

    async def act(cordoner: Cordoner) -> None:
        before = await cordoner.read()
        _check_paths(before, paths)
        value = before.with_cordons(paths)
        if value == before.setting.value and not before.missing(value):
            click.echo(
                f"nothing to do: broker {broker} is cordoned already: {cordoned_text(before)}"
            )
            return
        click.echo(f"broker {broker}: {CORDONED}: {clean(before.value)} -> {clean(value)}")
        if dry_run:
            click.echo("nothing was sent")
            return
        click.echo(_outcome(await cordoner.cordon(before, value)))

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
                raise RunRefused(f"nothing was sent: {_by_file(before)}")
            click.echo(f"nothing to do: broker {broker} has no cordon")
            return
        click.echo(f"broker {broker}: {CORDONED}: {clean(before.value)} -> not set")
        if dry_run:
            click.echo("nothing was sent")
            return
        after = await cordoner.uncordon()
        if after.cordoned:
            raise RunProblem(f"the setting is removed, but {_by_file(after)}")
        click.echo(_outcome(after))

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
                raise BadInput(
                    f"broker {broker} is not up: it has to answer for its own setting. Up: "
                    f"{join_all(sorted(described.online)) or 'none'}"
                )
            if not dry_run:
                await check_owner(cluster, state, described.cluster_id, CLAIM, take_over=take_over)
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


def _by_file(now: CordonState) -> str:
    paths = join_all(sorted(now.cordoned))
    return clean(
        f"the properties file of broker {now.broker} cordons {paths}: change {CORDONED} there, and "
        "restart the broker"
    )


def _outcome(now: CordonState) -> str:
    if not now.cordoned:
        return f"broker {now.broker} reports no cordoned log dir: new partitions may come to it"
    return f"broker {now.broker} reports {cordoned_text(now)}"


def cordoned_text(now: CordonState) -> str:
    """Describe which log dirs are cordoned: "1 of 2 log dirs cordoned: /data/1"."""
    few = f"{len(now.cordoned)} of {as_count(len(now.paths), 'log dir')} cordoned"
    return clean(f"{few}: {join_all(sorted(now.cordoned))}")
