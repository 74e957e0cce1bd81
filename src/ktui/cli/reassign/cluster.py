"""The cluster of a `ktui reassign`, and what is read of it, with the tool's errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.reassign.command_line.arguments import Arguments
from ktui.cli.reassign.errors import ReassignProblem
from ktui.cli.reassign.files.plan_json import ReassignmentFile, parse_reassignments, read_file
from ktui.cli.reassign.printed import lines
from ktui.cli.reassign.printed.java_order import sorted_topics
from ktui.cluster.clock import SystemClock
from ktui.cluster.fresh_read import FreshMetadata
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, TopicsAnswer
from ktui.execution.host.state_dir import StateDir, resolve_state_dir

_FRESH_WITHIN_S = 5.0


def cluster_choice(arguments: Arguments) -> ClusterChoice:
    """Return the options that name the cluster.

    Raises:
        BadArguments: one of them was given twice, or without its value.
    """
    config = arguments.text("command-config")
    return ClusterChoice(
        arguments.text("bootstrap-server"),
        None if config is None else Path(config),
        arguments.text("context"),
    )


def state_of(arguments: Arguments) -> StateDir:
    """Return the state directory.

    Raises:
        BadArguments: it was given twice.
    """
    return resolve_state_dir(arguments.text("state-dir"))


def reassignment_file(arguments: Arguments) -> ReassignmentFile:
    """Read the file of --reassignment-json-file.

    Raises:
        BadArguments: the option was given twice.
        ReassignProblem: the file cannot be read, or holds no reassignment.
    """
    return parse_reassignments(read_file(Path(arguments.text("reassignment-json-file") or "")))


async def describe(reader: ClusterReader, topics: Collection[str]) -> TopicsAnswer:
    """Describe topics as they are now, where the cluster can prove that.

    Raises:
        ReassignProblem: a topic cannot be described; a topic that is absent is in the answer.
        ClusterError: the cluster does not answer.
    """
    metadata = FreshMetadata(reader, SystemClock())
    answer, _ = await metadata.describe(topics, within_s=_FRESH_WITHIN_S)
    for failure in answer.failures:
        raise ReassignProblem(failure.sentence)
    return answer


async def describe_existing(
    reader: ClusterReader, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, PartitionState]:
    """Describe partitions that have to exist.

    Raises:
        ReassignProblem: a topic or a partition does not exist, or cannot be described.
        ClusterError: the cluster does not answer.
    """
    answer = await describe(reader, {tp.topic for tp in partitions})
    for topic in sorted_topics(answer.absent):
        raise ReassignProblem(lines.unknown_topic(topic))
    if missing := [tp for tp in partitions if tp not in answer.partitions]:
        raise ReassignProblem(lines.unknown_partitions(missing))
    return {tp: answer.partitions[tp] for tp in partitions}
