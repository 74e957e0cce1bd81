"""`ktui reassign --verify`: how far a reassignment is, and its throttles removed at its end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import click
import msgspec

from ktui.cli.reassign import printed
from ktui.cli.reassign.command import Arguments
from ktui.cli.reassign.files import ReassignmentFile
from ktui.cli.reassign.log_dirs import ReplicaDirs, read_dirs
from ktui.cli.reassign.plan_throttles import FOREIGN, Foreign, Over, clear_throttles
from ktui.cli.reassign.reading import cluster_choice, describe, reassignment_file
from ktui.cli.reassign.submit import runs_place
from ktui.cluster.asking import read_cluster_and_reassignments
from ktui.cluster.partition import Brokers, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterReader


class _Seen(msgspec.Struct, frozen=True):
    cluster_id: str
    listed: Mapping[TopicPartition, Reassignment]
    replicas: Mapping[TopicPartition, Brokers]
    """Of the partitions that exist and are not being reassigned."""
    dirs: ReplicaDirs  # of the replicas for which the file names a log dir


def verify(arguments: Arguments) -> None:
    """Print the state of each partition of a file, and remove throttles that are over."""
    file = reassignment_file(arguments)
    targets, choice = file.replicas, cluster_choice(arguments)
    seen = choice.cluster().ask(partial(_read, file))
    statuses = printed.verified_partitions(targets, seen.listed, seen.replicas)
    moves = printed.verified_log_dirs(file.log_dirs, seen.dirs.current, seen.dirs.future)
    lines = ["Status of partition reassignment:", *(each.line for each in statuses.values())]
    click.echo("\n".join(lines))
    click.echo("\n".join(each.line for each in moves.values()))  # as there: also without any
    if not arguments.has("preserve-throttles"):
        over = Over(
            partitions={tp for tp, status in statuses.items() if status.done},
            log_dirs=all(status.done for status in moves.values()),
            listed=seen.listed,
        )
        foreign = Foreign.ALL if arguments.has(FOREIGN) else Foreign.OF_PLAN
        place = runs_place(arguments, choice.target(changes=False), seen.cluster_id)
        clear_throttles(place, targets, over, foreign=foreign)


async def _read(file: ReassignmentFile, reader: ClusterReader) -> _Seen:
    targets = file.replicas
    described, listed = await read_cluster_and_reassignments(reader)
    topics = await describe(reader, {tp.topic for tp in targets if tp not in listed})
    replicas = {tp: state.replicas for tp, state in topics.partitions.items()}
    dirs = await read_dirs(reader, file.log_dirs, described.online)
    return _Seen(described.cluster_id, listed, replicas, dirs)
