"""What --verify prints of partitions and of replicas in log dirs."""

from __future__ import annotations

from ktui.cli.reassign.printed import (
    LogDirState,
    LogDirStatus,
    PartitionStatus,
    log_dir_lines,
    log_dir_statuses,
    partition_lines,
    partition_statuses,
)
from ktui.cluster.partition import Reassignment, Replica, TopicPartition

FOO0, FOO1, FOO2, BAR0, QUUX0 = (
    TopicPartition("foo", 0),
    TopicPartition("foo", 1),
    TopicPartition("foo", 2),
    TopicPartition("bar", 0),
    TopicPartition("quux", 0),
)
MOVING = Reassignment(replicas=(0, 1, 3, 2), adding=(3,), removing=(2,))
MISSING = LogDirStatus(LogDirState.MISSING_LOG_DIR, "/d1")
ACTIVE = LogDirStatus(LogDirState.ACTIVE, "/d1", "/d0", "/d1")
CANCELLED = LogDirStatus(LogDirState.CANCELLED, "/d1", "/d0")
COMPLETED = LogDirStatus(LogDirState.COMPLETED, "/d1", "/d1")


def test_a_listed_partition_is_in_progress_and_the_others_are_done() -> None:
    targets = {FOO0: (0, 1, 3), FOO1: (1, 2, 3), FOO2: (3, 2, 1), QUUX0: (1, 2, 3)}
    described = {FOO0: (0, 1, 2), FOO1: (1, 2, 3), FOO2: (1, 2, 3)}
    assert partition_statuses(targets, {FOO0: MOVING, BAR0: MOVING}, described) == {
        FOO0: PartitionStatus((0, 1, 3, 2), (0, 1, 3), done=False),
        FOO1: PartitionStatus((1, 2, 3), (1, 2, 3), done=True),
        FOO2: PartitionStatus((1, 2, 3), (3, 2, 1), done=True),
        QUUX0: PartitionStatus((), (1, 2, 3), done=True),
    }


def test_after_a_cancel_the_partition_is_done_and_where_it_was() -> None:
    statuses = partition_statuses({FOO0: (0, 1, 3)}, {}, {FOO0: (0, 1, 2)})
    assert statuses == {FOO0: PartitionStatus((0, 1, 2), (0, 1, 3), done=True)}


def test_the_states_of_partitions_are_printed_in_order_below_a_headline() -> None:
    statuses = {
        QUUX0: PartitionStatus((), (4, 5, 6), done=True),
        FOO2: PartitionStatus((1, 2, 3), (3, 2, 1), done=True),
        FOO1: PartitionStatus((1, 2, 3), (1, 2, 3), done=True),
        FOO0: PartitionStatus((0, 1, 3, 2), (0, 1, 3), done=False),
    }
    assert partition_lines(statuses) == (
        "Status of partition reassignment:\n"
        "Reassignment of partition foo-0 is still in progress.\n"
        "Reassignment of partition foo-1 is completed.\n"
        "There is no active reassignment of partition foo-2, "
        "but replica set is 1,2,3 rather than 3,2,1.\n"
        "There is no active reassignment of partition quux-0, "
        "but replica set is  rather than 4,5,6."
    )


def test_without_partitions_there_is_only_the_headline() -> None:
    assert partition_lines({}) == "Status of partition reassignment:"


def test_a_replica_is_missing_or_moving_or_in_its_log_dir_or_elsewhere() -> None:
    wanted = [Replica(FOO0, broker) for broker in range(6)]
    statuses = log_dir_statuses(
        dict.fromkeys(wanted, "/d1"),
        current=dict(zip(wanted, ["/d0", "/d0", None, "/d1", "/d0"], strict=False)),
        future={wanted[0]: "/d1", wanted[1]: "/d2"},
    )
    assert list(statuses.values()) == [
        ACTIVE,
        LogDirStatus(LogDirState.ACTIVE, "/d1", "/d0", "/d2"),
        MISSING,
        COMPLETED,
        CANCELLED,
        LogDirStatus(LogDirState.MISSING_REPLICA, "/d1"),
    ]


def test_the_states_of_replicas_are_printed_by_broker_then_partition() -> None:
    statuses = {
        Replica(FOO2, 1): COMPLETED,
        Replica(QUUX0, 0): LogDirStatus(LogDirState.MISSING_REPLICA, "/d1"),
        Replica(BAR0, 2): CANCELLED,
        Replica(FOO1, 1): LogDirStatus(LogDirState.ACTIVE, "/d1", "/d0", "/d2"),
        Replica(FOO0, 1): ACTIVE,
        Replica(FOO0, 0): MISSING,
    }
    assert log_dir_lines(statuses) == (
        "Partition foo-0 is not found in any live log dir on broker 0. "
        "There is likely an offline log directory on the broker.\n"
        "Partition quux-0 cannot be found in any live log directory on broker 0.\n"
        "Reassignment of replica foo-0-1 is still in progress.\n"
        "Partition foo-1 on broker 1 is being moved to log dir /d2 instead of /d1.\n"
        "Reassignment of replica foo-2-1 completed successfully.\n"
        "Partition bar-0 on broker 2 is not being moved from log dir /d0 to /d1."
    )


def test_without_log_dirs_an_empty_line_is_printed() -> None:
    assert log_dir_lines({}) == ""


def test_a_hostile_name_reaches_the_terminal_escaped() -> None:
    hostile = TopicPartition("f\x1b[2J\no", 0)
    status = LogDirStatus(LogDirState.ACTIVE, "/d\u202e", "/d0", "/\x9bd")
    printed = [
        partition_lines({hostile: PartitionStatus((), (), done=True)}).partition("\n")[2],
        log_dir_lines({Replica(hostile, 1): status}),
        log_dir_lines({Replica(hostile, 1): MISSING}),
    ]
    assert all(line.isprintable() for line in printed)
