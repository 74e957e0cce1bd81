"""`ktui broker status`: what a broker holds, and what keeps it."""

from __future__ import annotations

import asyncio

import click

from ktui.cli.broker.read import broker_argument, read_view
from ktui.cli.broker.status_json import status_json
from ktui.cli.broker.status_text import status_text
from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.output.json_form import encode
from ktui.execution.host.state_dir import StateDir

FIRST_TOPICS = 20


@click.command("status")
@broker_argument
@cluster_options
@click.option(
    "--all", "every", is_flag=True, help=f"Every topic, not only the first {FIRST_TOPICS}."
)
@common.state_dir_option
@common.json_option
def command(
    broker: int, choice: ClusterChoice, *, every: bool, state: StateDir, json: bool
) -> None:
    """Show what broker ID holds, and what keeps it.

    For each topic ktui shows what takes its replicas away, if anything does.

    Changes nothing. The runs of other hosts and state directories are not seen: their reassignments
    in flight are, as somebody else's.
    """
    cluster = choice.cluster()
    view = asyncio.run(read_view(cluster, state, broker))
    if json:
        click.echo(encode(status_json(cluster.name, view)))
    else:
        click.echo(status_text(view, most=None if every else FIRST_TOPICS))
