"""The layout of a cluster, read through its port: replicas, sizes and room."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.broker import LogDir
from ktui.cluster.errors import Failure
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, LogDirsAnswer
from ktui.planning.check.disks import disk_of
from ktui.planning.check.placement import read_with_log_dirs
from ktui.planning.intents.layout import Layout


class LayoutAnswer(msgspec.Struct, frozen=True):
    """A layout, and the brokers whose log dirs could not be read, each with the reason."""

    layout: Layout
    failures: tuple[Failure, ...]


async def read_layout(reader: ClusterReader) -> LayoutAnswer:
    """Read what a plan is made from.

    A broker that does not report its log dirs counts as not cordoned, and is a failure of the
    answer: its room is unknown, and so are the sizes that only it reports.

    Raises:
        ClusterError: the brokers, the topics or the reassignments cannot be read.
    """
    answer = await read_with_log_dirs(reader, None)
    placement, log_dirs = answer.placement, answer.log_dirs
    disks = {broker: disk_of(log_dirs[broker].log_dirs) for broker in sorted(log_dirs)}
    full = {broker: 0 for broker, answer in log_dirs.items() if _takes_none(answer.log_dirs)}
    layout = Layout(
        partitions=placement.partitions,
        pool=placement.pool,
        known=placement.brokers,
        unregistered=placement.unregistered,
        sizes=_sizes(placement.partitions, log_dirs),
        room=full | {b: disk.room for b, disk in disks.items() if disk.room is not None},
        disks={b: disk.total for b, disk in disks.items() if disk.total is not None},
    )
    return LayoutAnswer(layout, tuple(answer.failures))


def _takes_none(log_dirs: Collection[LogDir]) -> bool:
    """Return whether a broker has log dirs, of which none can take a new replica."""
    return bool(log_dirs) and all(each.error is not None or each.cordoned for each in log_dirs)


def _sizes(
    partitions: Mapping[TopicPartition, PartitionState], log_dirs: Mapping[int, LogDirsAnswer]
) -> dict[TopicPartition, int]:
    """Return the size of each partition: that of its leader, else the largest that is reported."""
    sizes: dict[TopicPartition, int] = {}
    for tp in sorted(partitions):
        state = partitions[tp]
        reported = {
            broker: log_dirs[broker].replicas[tp].size
            for broker in state.replicas
            if broker in log_dirs and tp in log_dirs[broker].replicas
        }
        if reported:
            led = None if state.leader is None else reported.get(state.leader)
            sizes[tp] = max(reported.values()) if led is None else led
    return sizes
