"""`ktui broker unregister`: remove a broker that is down for good from the cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing

import click
import msgspec

from ktui.cli.broker.cordon import check_owner
from ktui.cli.broker.read import broker_argument
from ktui.cli.context.cluster import Cluster, ClusterChoice, ControllerChoice, warn_of_tls
from ktui.cli.context.errors import BAD_INPUT, UNREAD, BadInput
from ktui.cli.context.ownership_options import take_over_option
from ktui.cli.context.terminal import can_ask, print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options, controller_options
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.text import clean
from ktui.execution.broker.unregister import (
    INHERITED,
    NOTHING_SENT,
    NotRegistered,
    check_unregister,
    forget_settings,
    unregister,
)
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run

CLAIM = "ktui broker unregister"
"""The name in an ownership claim, where a run would be."""
YES = "--yes"
GOES_FIRST = (
    "its throttles and its cordon go first, through a controller: they would outlive its "
    "registration. Other settings of its id stay"
)


@click.command("unregister")
@broker_argument
@click.option("--dry-run", is_flag=True, help="Check everything, and send nothing.")
@click.option(YES, is_flag=True, help="Unregister the broker without asking.")
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
    verb = Unregistration(cluster, broker, state, take_over)
    asyncio.run(verb.check(changes=not dry_run))
    click.echo(f"broker {broker} is down, and no partition has it among its replicas")
    click.echo(GOES_FIRST)
    if dry_run:
        click.echo("nothing was sent")
        return
    if not yes:
        _confirm(broker)
    try:
        kept = asyncio.run(verb.send())
    except KeyboardInterrupt:
        print_note(
            "interrupted: the request may have been sent. To see whether the broker is still "
            f"registered: ktui broker status {broker}"
        )
        raise
    click.echo(f"broker {broker} is no longer registered")
    if kept is not None:
        click.echo(kept_text(broker, kept))
        sys.exit(UNREAD)


class Unregistration(msgspec.Struct, frozen=True):
    """A broker that is to be unregistered. `send` reads everything again after the question."""

    cluster: Cluster
    broker: int
    state: StateDir
    take_over: bool
    no_ownership: bool = False

    async def check(self, *, changes: bool) -> None:
        """Check the broker and, before a change, the cluster's owner. Takes nothing over yet."""
        async with aclosing(self.cluster.reader()) as reader:
            found = await check_unregister(reader, self.broker, self._runs)
        if changes and not self.take_over:
            await self._check_owner(found.cluster_id)

    async def send(self) -> str | None:
        """Delete the broker's throttle and cordon, and unregister it.

        Returns:
            Why the settings may have stayed; None if they have not.

        Raises:
            RunRefused: nothing was changed.
            RunProblem: the settings are deleted, and the broker is or may be registered.
        """
        async with (
            aclosing(self.cluster.reader()) as reader,
            aclosing(self.cluster.writer()) as writer,
        ):
            await self._check_owner((await reader.describe_cluster()).cluster_id)
            ports = ClusterPorts(reader, writer)
            kept = await forget_settings(ports, self.broker, self._runs)
            if kept is None:
                click.echo(_deleted_text(self.broker))
            try:
                await unregister(ports, self.broker, SystemClock(), self._runs)
            except NotRegistered:
                raise
            except (RunRefused, ClusterError) as problem:
                if kept is not None:
                    raise
                why = str(problem).removeprefix(NOTHING_SENT)
                raise RunProblem(_still_registered_text(self.broker, why)) from problem
        return kept

    def _runs(self, cluster_id: str) -> Iterator[Run]:
        return (run for run, _ in unfinished_runs(self.state, cluster_id))

    async def _check_owner(self, cluster_id: str) -> None:
        await check_owner(
            self.cluster,
            self.state,
            cluster_id,
            CLAIM,
            take_over=self.take_over,
            off=self.no_ownership,
        )


def _deleted_text(broker: int) -> str:
    return f"a controller has deleted the throttles and the cordon of broker {broker}"


def _still_registered_text(broker: int, why: str) -> str:
    return (
        f"broker {broker} stays registered, without the throttles and the cordon that were deleted "
        f"just now: {why}. If it should get no new partitions: ktui broker cordon {broker}"
    )


def kept_text(broker: int, why: str) -> str:
    """Say which settings of a broker's id may have stayed, what they do, and how they go."""
    return (
        f"what was set for id {broker} stays with it: {', '.join(INHERITED)} could not be deleted "
        f"({clean(why)}). If they are set, the next broker with id {broker} copies slowly and gets "
        f"no new partitions. Once it is up: ktui broker uncordon {broker}, and ktui doctor "
        "--clear-throttles"
    )


def _confirm(broker: int) -> None:
    """Let the operator type the broker's id, or end the program."""
    if not can_ask():
        raise BadInput(f"nothing was sent: there is no one to ask. Give {YES}")
    if not typed_id(broker):
        print_note("nothing was sent")
        sys.exit(BAD_INPUT)


def typed_id(broker: int) -> bool:
    """Ask the operator for the broker's id, and return whether that was typed."""
    typed = click.prompt(
        f"To unregister broker {broker}, type its id", default="", show_default=False
    )
    return str(typed).strip() == str(broker)
