"""The actions that only read: --list, --generate and --progress, and what all actions read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.plan.progress import Targets, poll_progress, progress_table
from ktui.cli.reassign.command import Arguments
from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.execution.host.state_dir import StateDir, resolve_state_dir
from ktui.ops.reassign.execute import describe_all
from ktui.ops.reassign.log_dirs import known_dirs
from ktui.ops.reassign.tool import (
    ReassignmentFile,
    assignment_json,
    parse_broker_list,
    parse_reassignments,
    parse_topics,
    read_file,
    reassignments_text,
)
from ktui.planning.replication_factor import place_topics, topic_sizes, usable_racks


def cluster_choice(arguments: Arguments) -> ClusterChoice:
    """Return the options that name the cluster."""
    config = arguments.text("command-config")
    return ClusterChoice(
        arguments.text("bootstrap-server"),
        None if config is None else Path(config),
        arguments.text("context"),
    )


def state_of(arguments: Arguments) -> StateDir:
    """Return the state directory."""
    return resolve_state_dir(arguments.text("state-dir"))


def reassignment_file(arguments: Arguments) -> ReassignmentFile:
    """Read the file of --reassignment-json-file."""
    return parse_reassignments(read_file(Path(arguments.text("reassignment-json-file") or "")))


def list_reassignments(arguments: Arguments) -> None:
    """Print every reassignment of the cluster."""
    listed = cluster_choice(arguments).cluster().ask(lambda reader: reader.list_reassignments())
    click.echo(reassignments_text(listed))


def generate(arguments: Arguments) -> None:
    """Print the present assignment of topics, and a proposed one. Nothing is started."""
    file = read_file(Path(arguments.text("topics-to-move-json-file") or ""))
    brokers = parse_broker_list(arguments.text("broker-list") or "")
    topics = parse_topics(file)
    present, dirs, racks = cluster_choice(arguments).cluster().ask(partial(_read, topics))
    listed = {broker: racks[broker] for broker in brokers if broker in racks}
    usable = usable_racks(listed, rack_aware=not arguments.has("disable-rack-aware"))
    dice = random.Random()  # noqa: S311 - no secret
    proposed = place_topics(topic_sizes(present), usable, dice.randrange)
    click.echo(
        f"Current partition replica assignment\n{assignment_json(present, dirs)}\n\n"
        f"Proposed partition reassignment configuration\n{assignment_json(proposed)}"
    )


async def _read(
    topics: tuple[str, ...], reader: ClusterReader
) -> tuple[Mapping[TopicPartition, Brokers], Mapping[Replica, str], Mapping[int, str | None]]:
    answer = await describe_all(reader, topics)
    present = {tp: state.replicas for tp, state in answer.partitions.items()}
    cluster = await reader.describe_cluster()
    dirs = await known_dirs(reader, present, cluster.online)
    return present, dirs, {b.id: b.rack for b in cluster.brokers.values() if b.alive}


def show_progress(arguments: Arguments) -> None:
    """Print the status of each replica of a file, once."""
    targets = reassignment_file(arguments).replicas
    asyncio.run(_show(cluster_choice(arguments).cluster(), targets))


async def _show(cluster: Cluster, targets: Targets) -> None:
    async for _, rows in poll_progress(cluster, targets, None):
        click.echo(progress_table(rows))
