"""`ktui reassign --verify`: how far a reassignment is, and its throttles removed at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing

import click
import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.reassign import verify_states
from ktui.cli.reassign.arguments import Arguments
from ktui.cli.reassign.clear_throttles import clear_throttles
from ktui.cli.reassign.cluster import cluster_choice, describe, reassignment_file
from ktui.cluster.partition import Brokers, Reassignment, TopicPartition


class _Seen(msgspec.Struct, frozen=True):
    """What the cluster has of a file's partitions."""

    cluster_id: str
    listed: Mapping[TopicPartition, Reassignment]
    replicas: Mapping[TopicPartition, Brokers]
    """Of the partitions that exist and are not being reassigned."""


def verify(arguments: Arguments) -> None:
    """Print the state of each partition of a file, and remove throttles that are over.

    Raises:
        ReassignProblem: the file, or a topic, cannot be read.
        ClusterError: the cluster does not answer.
    """
    file = reassignment_file(arguments)
    targets, choice = file.replicas, cluster_choice(arguments)
    seen = asyncio.run(_read(choice.cluster(), targets))
    statuses = verify_states.partition_statuses(targets, seen.listed, seen.replicas)
    click.echo(verify_states.partition_lines(statuses))
    click.echo(verify_states.log_dir_lines({}))
    if not arguments.has("preserve-throttles"):
        over = {tp for tp, status in statuses.items() if status.done}
        clear_throttles(arguments, choice, seen.cluster_id, targets, over)


async def _read(cluster: Cluster, targets: Mapping[TopicPartition, Brokers]) -> _Seen:
    async with aclosing(cluster.reader()) as reader:
        described = await reader.describe_cluster()
        listed = await reader.list_reassignments()
        at_rest: Collection[str] = {tp.topic for tp in targets if tp not in listed}
        topics = await describe(reader, at_rest)
        replicas = {tp: state.replicas for tp, state in topics.partitions.items()}
        return _Seen(described.cluster_id, listed, replicas)
