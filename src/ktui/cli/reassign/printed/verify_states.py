"""The states of partitions and of replicas in log dirs that --verify tells apart; pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from ktui.cli.reassign.printed.java_order import sorted_partitions, sorted_replicas
from ktui.cli.reassign.printed.lines import replica_name
from ktui.cluster.partition import Brokers, Reassignment, Replica, TopicPartition
from ktui.cluster.text import clean


class PartitionStatus(msgspec.Struct, frozen=True):
    """A partition of a reassignment file."""

    current: Brokers
    """Empty if the partition does not exist."""
    target: Brokers
    done: bool
    """Whether the partition is not being reassigned, wherever its replicas are."""


class LogDirState(enum.Enum):
    """The state of a replica that is wanted in a log dir."""

    MISSING_REPLICA = enum.auto()
    """Its broker did not answer for the replica."""
    MISSING_LOG_DIR = enum.auto()
    """No live log dir of its broker has the replica."""
    ACTIVE = enum.auto()
    """The replica is moving, to the wanted log dir or to another."""
    CANCELLED = enum.auto()
    """The replica is in another log dir and is not moving."""
    COMPLETED = enum.auto()
    """The replica is in the wanted log dir."""


class LogDirStatus(msgspec.Struct, frozen=True):
    """A replica for which a reassignment file names a log dir."""

    state: LogDirState
    target: str
    current: str | None = None
    future: str | None = None

    @property
    def done(self) -> bool:
        """Whether nothing moves, even if the replica is in another log dir."""
        return self.state in {LogDirState.CANCELLED, LogDirState.COMPLETED}


def partition_statuses(
    targets: Mapping[TopicPartition, Brokers],
    listed: Mapping[TopicPartition, Reassignment],
    described: Mapping[TopicPartition, Brokers],
) -> dict[TopicPartition, PartitionStatus]:
    """Determine the state of each partition of a file.

    Args:
        targets: the file's replicas.
        listed: the reassignments of the cluster.
        described: the present replicas of the partitions that exist.
    """
    return {
        tp: PartitionStatus(listed[tp].replicas, target, done=False)
        if tp in listed
        else PartitionStatus(described.get(tp, ()), target, done=True)
        for tp, target in targets.items()
    }


def log_dir_statuses(
    targets: Mapping[Replica, str],
    current: Mapping[Replica, str | None],
    future: Mapping[Replica, str],
) -> dict[Replica, LogDirStatus]:
    """Determine the state of each replica for which a file names a log dir.

    Args:
        targets: the file's log dirs.
        current: the log dir of each replica; None where no live log dir has the replica.
        future: the log dirs to which replicas are moving.
    """
    return {
        replica: _log_dir_status(target, current[replica], future.get(replica))
        if replica in current
        else LogDirStatus(LogDirState.MISSING_REPLICA, target)
        for replica, target in targets.items()
    }


def partition_lines(statuses: Mapping[TopicPartition, PartitionStatus]) -> str:
    """Format the states of partitions, with their headline."""
    lines = [_partition_line(tp, statuses[tp]) for tp in sorted_partitions(statuses)]
    return "\n".join(["Status of partition reassignment:", *lines])


def log_dir_lines(statuses: Mapping[Replica, LogDirStatus]) -> str:
    """Format the states of replicas; one empty line, which is printed too, where there is none."""
    return "\n".join(
        _log_dir_line(replica, statuses[replica]) for replica in sorted_replicas(statuses)
    )


def _log_dir_status(target: str, current: str | None, future: str | None) -> LogDirStatus:
    if current is None:
        return LogDirStatus(LogDirState.MISSING_LOG_DIR, target)
    if future is not None:
        return LogDirStatus(LogDirState.ACTIVE, target, current, future)
    state = LogDirState.COMPLETED if current == target else LogDirState.CANCELLED
    return LogDirStatus(state, target, current)


def _partition_line(tp: TopicPartition, status: PartitionStatus) -> str:
    name = clean(str(tp))
    if not status.done:
        return f"Reassignment of partition {name} is still in progress."
    if status.current == status.target:
        return f"Reassignment of partition {name} is completed."
    current, target = (",".join(map(str, ids)) for ids in (status.current, status.target))
    return (
        f"There is no active reassignment of partition {name}, "
        f"but replica set is {current} rather than {target}."
    )


def _log_dir_line(replica: Replica, status: LogDirStatus) -> str:
    partition = f"Partition {clean(str(replica.tp))}"
    target, current, future = (
        clean(each or "") for each in (status.target, status.current, status.future)
    )
    match status.state:
        case LogDirState.MISSING_REPLICA:
            where = f"in any live log directory on broker {replica.broker}"
            return f"{partition} cannot be found {where}."
        case LogDirState.MISSING_LOG_DIR:
            return (
                f"{partition} is not found in any live log dir on broker {replica.broker}. "
                "There is likely an offline log directory on the broker."
            )
        case LogDirState.ACTIVE if status.future == status.target:
            return f"Reassignment of replica {replica_name(replica)} is still in progress."
        case LogDirState.ACTIVE:
            return (
                f"{partition} on broker {replica.broker} is being moved to log dir {future} "
                f"instead of {target}."
            )
        case LogDirState.CANCELLED:
            return (
                f"{partition} on broker {replica.broker} is not being moved from log dir "
                f"{current} to {target}."
            )
        case LogDirState.COMPLETED:
            return f"Reassignment of replica {replica_name(replica)} completed successfully."
