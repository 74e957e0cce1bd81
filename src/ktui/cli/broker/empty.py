"""`ktui broker empty`: whether a broker may go, for operators and scripts."""

from __future__ import annotations

import asyncio
import sys

import click

from ktui.cli.broker.read import broker_argument, exclude_option, read_view
from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cluster.text import clean
from ktui.execution.broker.status import EMPTY, but_for, held_line, why_unknown
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import StateDir

NOT_EMPTY = 3


@click.command("empty")
@broker_argument
@cluster_options
@exclude_option("Do not count these topics: names or shell patterns.")
@common.state_dir_option
def command(
    broker: int, choice: ClusterChoice, *, exclude: tuple[str, ...], state: StateDir
) -> None:
    """Check whether broker ID is empty: it holds no replica, and none is on its way to it.

    ktui never guesses: metadata must be proven to be current, and the broker's own log dirs must
    agree with it. A broker that is down cannot be asked, and is not known to be empty.

    Exit code 0 if it is empty, also but for the topics of --exclude, which are then named; 3 if it
    is not, 1 if that is not known, 2 for bad input.
    """
    view = asyncio.run(read_view(choice.cluster(), state, broker, fresh=True, exclude=exclude))
    if view.holdings.replicas:
        click.echo(held_line(view))
        sys.exit(NOT_EMPTY)
    if view.facts.unread:
        raise RunProblem(f"broker {broker} is not known to be empty: {clean(why_unknown(view))}")
    click.echo(clean(f"broker {broker} is {EMPTY if not but_for(view) else but_for(view)}"))
