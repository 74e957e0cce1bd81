"""The actions that only read: --list, --generate and --progress, and what all actions read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

import click

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.plan.progress import Targets, poll_progress, progress_table
from ktui.cli.reassign import printed
from ktui.cli.reassign.command import Arguments
from ktui.cli.reassign.files import (
    ReassignmentFile,
    format_assignment,
    parse_broker_list,
    parse_reassignments,
    parse_topics,
    read_file,
)
from ktui.cli.reassign.log_dirs import known_dirs
from ktui.cli.reassign.printed import ReassignProblem, sorted_topics
from ktui.cluster.asking import FreshMetadata
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, TopicsAnswer
from ktui.execution.host.state_dir import StateDir, resolve_state_dir
from ktui.planning.replication_factor import place_topics, topic_sizes, usable_racks

_FRESH_WITHIN_S = 5.0


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


async def describe(reader: ClusterReader, topics: Collection[str]) -> TopicsAnswer:
    """Describe topics as they are now, where the cluster can prove that."""
    metadata = FreshMetadata(reader, SystemClock())
    answer, _ = await metadata.describe(topics, within_s=_FRESH_WITHIN_S)
    for failure in answer.failures:
        raise ReassignProblem(failure.sentence)
    return answer


async def describe_existing(
    reader: ClusterReader, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, PartitionState]:
    """Describe partitions that have to exist."""
    answer = await describe(reader, {tp.topic for tp in partitions})
    for topic in sorted_topics(answer.absent):
        raise ReassignProblem(printed.unknown_topic(topic))
    if missing := [tp for tp in partitions if tp not in answer.partitions]:
        raise ReassignProblem(printed.unknown_partitions(missing))
    return {tp: answer.partitions[tp] for tp in partitions}


def list_reassignments(arguments: Arguments) -> None:
    """Print every reassignment of the cluster."""
    listed = cluster_choice(arguments).cluster().ask(lambda reader: reader.list_reassignments())
    click.echo(printed.current_reassignments(listed))


def generate(arguments: Arguments) -> None:
    """Print the present assignment of topics, and a proposed one. Nothing is started."""
    file = read_file(Path(arguments.text("topics-to-move-json-file") or ""))
    brokers = parse_broker_list(arguments.text("broker-list") or "")
    topics = parse_topics(file)
    cluster = cluster_choice(arguments).cluster()
    present, dirs, racks = cluster.ask(partial(_read, topics))
    listed = {broker: racks[broker] for broker in brokers if broker in racks}
    usable = usable_racks(listed, rack_aware=not arguments.has("disable-rack-aware"))
    dice = random.Random()  # noqa: S311 - no secret
    proposed = place_topics(topic_sizes(present), usable, dice.randrange)
    click.echo(
        printed.generated_assignment(format_assignment(present, dirs), format_assignment(proposed))
    )


async def _read(
    topics: tuple[str, ...], reader: ClusterReader
) -> tuple[Mapping[TopicPartition, Brokers], Mapping[Replica, str], Mapping[int, str | None]]:
    answer = await describe(reader, topics)
    for topic in sorted_topics(answer.absent):
        raise ReassignProblem(printed.unknown_topic(topic))
    present = {tp: state.replicas for tp, state in answer.partitions.items()}
    cluster = await reader.describe_cluster()
    dirs = await known_dirs(reader, present, cluster.online)
    brokers = cluster.brokers.values()
    return present, dirs, {broker.id: broker.rack for broker in brokers if broker.alive}


def show_progress(arguments: Arguments) -> None:
    """Print the status of each replica of a file, once."""
    targets = reassignment_file(arguments).replicas
    asyncio.run(_show(cluster_choice(arguments).cluster(), targets))


async def _show(cluster: Cluster, targets: Targets) -> None:
    async for _, rows in poll_progress(cluster, targets, None):
        click.echo(progress_table(rows))
