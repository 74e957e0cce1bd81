"""What --verify prints of partitions and of replicas in log dirs."""

from __future__ import annotations

from ktui.cli.reassign.printed import Verified, verified_log_dirs, verified_partitions
from ktui.cluster.partition import Reassignment, Replica, TopicPartition

FOO0, FOO1, FOO2, BAR0, QUUX0 = (
    TopicPartition("foo", 0),
    TopicPartition("foo", 1),
    TopicPartition("foo", 2),
    TopicPartition("bar", 0),
    TopicPartition("quux", 0),
)
MOVING = Reassignment(replicas=(0, 1, 3, 2), adding=(3,), removing=(2,))


def test_a_listed_partition_is_in_progress_and_the_others_are_done_in_order() -> None:
    targets = {QUUX0: (4, 5, 6), FOO2: (3, 2, 1), FOO1: (1, 2, 3), FOO0: (0, 1, 3)}
    described = {FOO0: (0, 1, 2), FOO1: (1, 2, 3), FOO2: (1, 2, 3)}

    found = verified_partitions(targets, {FOO0: MOVING, BAR0: MOVING}, described)

    assert [*found.items()] == [
        (FOO0, Verified("Reassignment of partition foo-0 is still in progress.", done=False)),
        (FOO1, Verified("Reassignment of partition foo-1 is completed.", done=True)),
        (
            FOO2,
            Verified(
                "There is no active reassignment of partition foo-2, "
                "but replica set is 1,2,3 rather than 3,2,1.",
                done=True,
            ),
        ),
        (
            QUUX0,
            Verified(
                "There is no active reassignment of partition quux-0, "
                "but replica set is  rather than 4,5,6.",
                done=True,
            ),
        ),
    ]


def test_after_a_cancel_the_partition_is_done_and_where_it_was() -> None:
    found = verified_partitions({FOO0: (0, 1, 3)}, {}, {FOO0: (0, 1, 2)})

    assert found[FOO0].done
    assert "replica set is 0,1,2 rather than 0,1,3" in found[FOO0].line


def test_a_replica_is_missing_or_moving_or_in_its_log_dir_or_elsewhere() -> None:
    missing, unknown = Replica(FOO0, 0), Replica(QUUX0, 0)
    active, other, there = Replica(FOO0, 1), Replica(FOO1, 1), Replica(FOO2, 1)
    cancelled = Replica(BAR0, 2)

    found = verified_log_dirs(
        dict.fromkeys([there, unknown, cancelled, other, active, missing], "/d1"),
        current={missing: None, active: "/d0", other: "/d0", there: "/d1", cancelled: "/d0"},
        future={active: "/d1", other: "/d2"},
    )

    assert [*found] == [missing, unknown, active, other, there, cancelled]
    assert "\n".join(each.line for each in found.values()) == (
        "Partition foo-0 is not found in any live log dir on broker 0. "
        "There is likely an offline log directory on the broker.\n"
        "Partition quux-0 cannot be found in any live log directory on broker 0.\n"
        "Reassignment of replica foo-0-1 is still in progress.\n"
        "Partition foo-1 on broker 1 is being moved to log dir /d2 instead of /d1.\n"
        "Reassignment of replica foo-2-1 completed successfully.\n"
        "Partition bar-0 on broker 2 is not being moved from log dir /d0 to /d1."
    )
    assert [replica for replica in found if found[replica].done] == [there, cancelled]


def test_a_hostile_name_reaches_the_terminal_escaped() -> None:
    hostile = TopicPartition("f\x1b[2J\no", 0)
    replica = Replica(hostile, 1)
    found = [
        *verified_partitions({hostile: (1,)}, {}, {}).values(),
        *verified_log_dirs({replica: "/d\u202e"}, {replica: "/d0"}, {replica: "/\x9bd"}).values(),
        *verified_log_dirs({replica: "/d\u202e"}, {replica: "/\x9bd"}, {}).values(),
        *verified_log_dirs({replica: "/d1"}, {replica: None}, {}).values(),
    ]

    assert all(each.line.isprintable() for each in found)
