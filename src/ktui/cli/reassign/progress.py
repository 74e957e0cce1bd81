"""`ktui reassign --progress`: how far behind each replica of a reassignment is (KIP-179)."""

from __future__ import annotations

import asyncio

import click

from ktui.cli.context.cluster import Cluster
from ktui.cli.plan.progress import Targets, poll_progress, progress_table
from ktui.cli.reassign.cluster import cluster_choice, reassignment_file
from ktui.cli.reassign.command_line.arguments import Arguments


def show_progress(arguments: Arguments) -> None:
    """Print the status of each replica of a file, once.

    Raises:
        ReassignProblem: the file cannot be read.
        ClusterError: the cluster does not answer.
    """
    targets = reassignment_file(arguments).replicas
    asyncio.run(_show(cluster_choice(arguments).cluster(), targets))


async def _show(cluster: Cluster, targets: Targets) -> None:
    async for _, rows in poll_progress(cluster, targets, None):
        click.echo(progress_table(rows))
