"""`ktui reassign --list`: print the reassignments under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

import click

from ktui.cli.context.cluster import Cluster
from ktui.cli.reassign.cluster import cluster_choice
from ktui.cli.reassign.command_line.arguments import Arguments
from ktui.cli.reassign.printed import lines
from ktui.cluster.partition import Reassignment, TopicPartition


def list_reassignments(arguments: Arguments) -> None:
    """Print every reassignment of the cluster.

    Raises:
        ClusterError: the controller does not answer.
    """
    listed = asyncio.run(_listed(cluster_choice(arguments).cluster()))
    click.echo(lines.current_reassignments(listed))


async def _listed(cluster: Cluster) -> Mapping[TopicPartition, Reassignment]:
    async with aclosing(cluster.reader()) as reader:
        return await reader.list_reassignments()
