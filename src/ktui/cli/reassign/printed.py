"""The lines and errors of kafka-reassign-partitions, as `ktui reassign` prints them."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping

import msgspec

from ktui.cluster.partition import Brokers, Reassignment, Replica, TopicPartition
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem


class ReassignProblem(RunProblem):
    """An action cannot be carried out. The message is that of kafka-reassign-partitions."""


class ActionFailed(Exception):
    """An action has failed, in part or as a whole. The message is all that is printed."""


def sorted_topics(topics: Iterable[str]) -> list[str]:
    """Sort topics as Java does, by their UTF-16 code units."""
    return sorted(topics, key=_code_units)


def sorted_partitions(tps: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Sort partitions by topic, then by number."""
    return sorted(tps, key=lambda tp: (_code_units(tp.topic), tp.partition))


def sorted_replicas(replicas: Iterable[Replica]) -> list[Replica]:
    """Sort replicas by broker, then by topic and partition."""
    return sorted(
        replicas, key=lambda each: (each.broker, _code_units(each.tp.topic), each.tp.partition)
    )


def _code_units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


EXISTING_REASSIGNMENT = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
"""--execute without --additional, while anything in the cluster is being reassigned."""
THROTTLE_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
NOTHING_TO_CANCEL = "None of the specified partition reassignments are active."
NO_MOVES_TO_CANCEL = "None of the specified partition moves are active."
"""Kafka's tool prints this without a line end: its next line follows on the same one."""
UNSUPPORTED_BY_CONTROLLER = (
    "This Admin API is not yet supported when communicating directly with the controller quorum."
)
"""Log dirs with --bootstrap-controller."""

_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


def current_reassignments(listed: Mapping[TopicPartition, Reassignment]) -> str:
    """Format the output of --list."""
    if not listed:
        return "No partition reassignments found."
    lines = [_listed(tp, listed[tp]) for tp in sorted_partitions(listed)]
    return "\n".join(["Current partition reassignments:", *lines])


def generated_assignment(current: str, proposed: str) -> str:
    """Format the output of --generate from the two assignments in JSON."""
    return (
        f"Current partition replica assignment\n{current}\n\n"
        f"Proposed partition reassignment configuration\n{proposed}"
    )


def assignment_for_rollback(current: str) -> str:
    """Format the current assignment, in JSON, that --execute prints before it changes anything."""
    return (
        f"Current partition replica assignment\n\n{current}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def unknown_broker(broker: int) -> str:
    """Format the error for a target replica on a broker that is not in the cluster."""
    return f"Unknown broker id {broker}"


def unknown_topic(topic: str) -> str:
    """Format the error for a topic that does not exist."""
    return f"{_UNKNOWN}: Topic {clean(topic)} not found."


def unknown_partitions(tps: Collection[TopicPartition]) -> str:
    """Format the error for partitions that their topics do not have."""
    return f"{_UNKNOWN}: Unable to find partition: {_joined(tps, ', ')}"


def replication_throttle_set(bytes_s: int) -> str:
    """Format the line that follows the broker rates of --throttle."""
    return f"The inter-broker throttle limit was set to {bytes_s} B/s"


def log_dir_throttle_set(bytes_s: int) -> str:
    """Format the line that follows the rates of --replica-alter-log-dirs-throttle."""
    return f"The replica-alter-dir throttle limit was set to {bytes_s} B/s"


def reassignments_started(tps: Collection[TopicPartition]) -> str:
    """Format the success of --execute."""
    return f"Successfully started partition reassignment{_s(tps)} for {_joined(tps)}"


def reassignments_refused(errors: Mapping[TopicPartition, str]) -> str:
    """Format the partitions that --execute could not start, with their errors."""
    return f"Error reassigning partition(s):\n{_by_partition(errors)}"


def reassignments_cancelled(tps: Collection[TopicPartition]) -> str:
    """Format the success of --cancel; `NOTHING_TO_CANCEL` where nothing was active."""
    if not tps:
        return NOTHING_TO_CANCEL
    return f"Successfully cancelled partition reassignment{_s(tps)} for: {_joined(tps)}"


def cancels_refused(errors: Mapping[TopicPartition, str]) -> str:
    """Format the partitions that --cancel could not cancel, with their errors."""
    return f"Error cancelling partition reassignment{_s(errors)} for:\n{_by_partition(errors)}"


def clearing_broker_throttles(brokers: Collection[int]) -> str:
    """Format the line printed before the rates of brokers are deleted."""
    ids = ",".join(map(str, sorted(brokers)))
    return f"Clearing broker-level throttles on broker{_s(brokers)} {ids}"


def clearing_topic_throttles(topics: Collection[str]) -> str:
    """Format the line printed before the throttled replicas of topics are deleted."""
    names = clean(",".join(sorted_topics(topics)))
    return f"Clearing topic-level throttles on topic{_s(topics)} {names}"


def log_dir_moves_started(log_dirs: Mapping[Replica, str]) -> str:
    """Format the replicas that began to move to a log dir; each line ends with a blank."""
    return "\n".join(
        f"Successfully started moving log directory to {clean(log_dirs[replica])} for replica "
        f"{clean(str(replica.tp))} with broker {replica.broker} "
        for replica in sorted_replicas(log_dirs)
    )


def log_dir_moves_timed_out(pending: Collection[Replica]) -> str:
    """Format the replicas that could not begin to move within --timeout."""
    names = ",".join(map(replica_name, sorted_replicas(pending)))
    return f"Timed out before log directory move{_s(pending)} could be started for: {names}"


def log_dir_move_failed(replica: Replica) -> str:
    """Format a replica whose move to a log dir was refused."""
    return f"Failed to alter dir for {replica_name(replica)}"


def replica_name(replica: Replica) -> str:
    """Return Kafka's notation of a replica, `topic-partition-broker`."""
    return clean(f"{replica.tp}-{replica.broker}")


def _listed(tp: TopicPartition, listed: Reassignment) -> str:
    changes = (("adding", listed.adding), ("removing", listed.removing))
    parts = [f" {word}: {_ids(brokers)}." for word, brokers in changes if brokers]
    return f"{clean(str(tp))}: replicas: {_ids(listed.replicas)}.{''.join(parts)}"


def _ids(brokers: Collection[int]) -> str:
    return ",".join(map(str, brokers))


def _s(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"


def _joined(tps: Collection[TopicPartition], comma: str = ",") -> str:
    return clean(comma.join(map(str, sorted_partitions(tps))))


def _by_partition(errors: Mapping[TopicPartition, str]) -> str:
    return "\n".join(f"{clean(str(tp))}: {errors[tp]}" for tp in sorted_partitions(errors))


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
