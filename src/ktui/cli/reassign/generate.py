"""`ktui reassign --generate`: propose an assignment of topics to brokers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

import click

from ktui.cli.context.cluster import Cluster
from ktui.cli.reassign.cluster import cluster_choice, describe
from ktui.cli.reassign.command_line.arguments import Arguments
from ktui.cli.reassign.errors import ReassignProblem
from ktui.cli.reassign.files.broker_list import parse_broker_list
from ktui.cli.reassign.files.plan_json import format_assignment, parse_topics, read_file
from ktui.cli.reassign.log_dirs import known_dirs
from ktui.cli.reassign.printed import lines
from ktui.cli.reassign.printed.java_order import sorted_topics
from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.planning.striped_placement import place_topics, topic_sizes, usable_racks


def generate(arguments: Arguments) -> None:
    """Print the present assignment of topics, and a proposed one. Nothing is started.

    Raises:
        ReassignProblem: a file, a topic or the list of brokers cannot be used.
        PlacementProblem: the brokers cannot hold the topics.
        ClusterError: the cluster does not answer.
    """
    file = read_file(Path(arguments.text("topics-to-move-json-file") or ""))
    brokers = parse_broker_list(arguments.text("broker-list") or "")
    topics = parse_topics(file)
    cluster = cluster_choice(arguments).cluster()
    present, dirs, racks = asyncio.run(_read(cluster, topics))
    listed = {broker: racks[broker] for broker in brokers if broker in racks}
    usable = usable_racks(listed, rack_aware=not arguments.has("disable-rack-aware"))
    dice = random.Random()  # noqa: S311 - no secret
    proposed = place_topics(topic_sizes(present), usable, dice.randrange)
    click.echo(
        lines.generated_assignment(format_assignment(present, dirs), format_assignment(proposed))
    )


async def _read(
    cluster: Cluster, topics: tuple[str, ...]
) -> tuple[Mapping[TopicPartition, Brokers], Mapping[Replica, str], Mapping[int, str | None]]:
    """Read the replicas of topics, their log dirs, and the rack of each live broker."""
    async with aclosing(cluster.reader()) as reader:
        answer = await describe(reader, topics)
        for topic in sorted_topics(answer.absent):
            raise ReassignProblem(lines.unknown_topic(topic))
        present = {tp: state.replicas for tp, state in answer.partitions.items()}
        cluster_now = await reader.describe_cluster()
        dirs = await known_dirs(reader, present, cluster_now.online)
        brokers = cluster_now.brokers.values()
        return present, dirs, {broker.id: broker.rack for broker in brokers if broker.alive}
