"""The output of kafka-reassign-partitions: each function returns one block, without a line end.

The states that --verify prints are in `verify_states`. Names are cleaned: a name in a file can
hold anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ktui.cli.reassign.printed.java_order import sorted_partitions, sorted_replicas, sorted_topics
from ktui.cluster.partition import Reassignment, Replica, TopicPartition
from ktui.cluster.text import clean

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
