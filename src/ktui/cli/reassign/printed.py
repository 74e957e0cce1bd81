"""The lines and errors of kafka-reassign-partitions, as `ktui reassign` prints them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

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


class Verified(NamedTuple):
    """What --verify finds of a partition, or of a replica for which a file names a log dir."""

    line: str
    done: bool  # whether nothing moves, wherever the replicas are


def verified_partitions(
    targets: Mapping[TopicPartition, Brokers],
    listed: Mapping[TopicPartition, Reassignment],
    described: Mapping[TopicPartition, Brokers],
) -> dict[TopicPartition, Verified]:
    """Verify each partition of a file, in the order of the lines."""
    found = {}
    for tp in sorted_partitions(targets):
        name, current, target = clean(str(tp)), described.get(tp, ()), targets[tp]
        if tp in listed:
            line = f"Reassignment of partition {name} is still in progress."
        elif current == target:
            line = f"Reassignment of partition {name} is completed."
        else:
            line = (
                f"There is no active reassignment of partition {name}, "
                f"but replica set is {_ids(current)} rather than {_ids(target)}."
            )
        found[tp] = Verified(line, tp not in listed)
    return found


def verified_log_dirs(
    targets: Mapping[Replica, str],
    current: Mapping[Replica, str | None],
    future: Mapping[Replica, str],
) -> dict[Replica, Verified]:
    """Verify each replica for which a file names a log dir, in the order of the lines.

    Args:
        current: the log dir of each replica; None where no live log dir has the replica. A replica
            whose broker did not answer for it is not in there.
    """
    return {
        replica: _log_dir(replica, targets[replica], current, future)
        for replica in sorted_replicas(targets)
    }


def _log_dir(
    replica: Replica,
    target: str,
    current: Mapping[Replica, str | None],
    future: Mapping[Replica, str],
) -> Verified:
    of, broker = f"Reassignment of replica {replica_name(replica)}", replica.broker
    partition = f"Partition {clean(str(replica.tp))}"
    if replica not in current:
        where = f"in any live log directory on broker {broker}"
        return Verified(f"{partition} cannot be found {where}.", done=False)
    now, coming = current[replica], future.get(replica)
    if now is None:
        line = (
            f"{partition} is not found in any live log dir on broker {broker}. "
            "There is likely an offline log directory on the broker."
        )
        return Verified(line, done=False)
    if coming == target:
        return Verified(f"{of} is still in progress.", done=False)
    if coming is not None:
        away = f"{clean(coming)} instead of {clean(target)}"
        moved = f"{partition} on broker {broker} is being moved to log dir {away}."
        return Verified(moved, done=False)
    if now == target:
        return Verified(f"{of} completed successfully.", done=True)
    stays = f"from log dir {clean(now)} to {clean(target)}"
    return Verified(f"{partition} on broker {broker} is not being moved {stays}.", done=True)
