"""Moves between the log dirs of a broker, as --execute begins them."""

from __future__ import annotations

import pytest

from ktui.cli.reassign.log_dirs import ReplicaDirs, begin_moves, known_dirs, read_dirs
from ktui.cli.reassign.printed import ActionFailed, ReassignProblem
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import Replica, TopicPartition
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, TopicSpec
from support.simulated.clusters import a_cluster, wait

FIRST, SECOND = BrokerSpec(id=1, log_dirs=2).log_dir_paths
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ON_1, ON_2, ON_3 = (Replica(T0, broker) for broker in (1, 2, 3))


def two_log_dirs() -> SimulatedCluster:
    """Return five brokers with two partitions on 1 and 2: 0 in the first log dir, 1 in the other.

    Partitions are large enough for moves to stay in flight.
    """
    return a_cluster(
        brokers=tuple(BrokerSpec(id=b, log_dirs=2) for b in range(1, 6)),
        topics=(TopicSpec(name="orders", replicas=((1, 2), (1, 2)), bytes_each=10_000 * MIB),),
    )


async def begin(
    cluster: SimulatedCluster,
    wanted: dict[Replica, str],
    timeout_s: float = 10.0,
    printed: list[str] | None = None,
) -> list[str]:
    """Begin moves, and return what is printed; `printed` has it also after a failure."""
    lines = [] if printed is None else printed
    async for line in begin_moves(cluster.writer(), cluster.clock, wanted, timeout_s):
        lines.append(line)
    return lines


def started(path: str, replica: Replica) -> str:
    return (
        f"Successfully started moving log directory to {path} for replica {replica.tp} "
        f"with broker {replica.broker} "
    )


async def test_moves_begin_on_each_broker_and_are_printed_together() -> None:
    cluster = two_log_dirs()

    printed = await begin(cluster, {ON_2: SECOND, ON_1: SECOND})

    assert printed == [f"{started(SECOND, ON_1)}\n{started(SECOND, ON_2)}"]
    assert await read_dirs(cluster.reader(), [ON_1, ON_2], {1, 2}) == ReplicaDirs(
        current={ON_1: FIRST, ON_2: FIRST}, future={ON_1: SECOND, ON_2: SECOND}
    )


async def test_a_replica_in_its_log_dir_already_counts_as_begun() -> None:
    cluster = two_log_dirs()

    assert await begin(cluster, {ON_1: FIRST}) == [started(FIRST, ON_1)]
    assert not (await read_dirs(cluster.reader(), [ON_1], {1})).future


async def test_a_move_is_asked_for_again_until_the_broker_hosts_the_replica() -> None:
    cluster = two_log_dirs()
    cluster.schedule(layout.ScheduledEvent(3.0, layout.Alter({T0: (1, 2, 3)})))

    printed = await begin(cluster, {ON_3: SECOND, ON_1: SECOND})

    assert printed == [started(SECOND, ON_1), started(SECOND, ON_3)]
    assert 3.0 <= cluster.clock.monotonic() < 10.0
    dirs = await read_dirs(cluster.reader(), [ON_3], {3})
    assert (dirs.current, dirs.future) == ({ON_3: SECOND}, {})


async def test_a_lost_answer_is_asked_for_again() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.LoseAnswer())

    assert await begin(cluster, {ON_1: SECOND}, timeout_s=120.0) == [started(SECOND, ON_1)]


async def test_replicas_that_never_come_are_named_after_those_that_have_begun() -> None:
    cluster = two_log_dirs()
    missing = {ON_3: SECOND, Replica(T1, 3): FIRST}

    printed: list[str] = []
    with pytest.raises(ActionFailed) as failed:
        await begin(cluster, {ON_1: SECOND, **missing}, printed=printed)

    assert printed == [started(SECOND, ON_1)]
    assert str(failed.value) == (
        "Timed out before log directory moves could be started for: orders-0-3,orders-1-3"
    )
    assert 10.0 <= cluster.clock.monotonic() < 11.0


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_without_time_each_move_is_tried_once(timeout_s: float) -> None:
    cluster = two_log_dirs()

    assert await begin(cluster, {ON_1: SECOND}, timeout_s) == [started(SECOND, ON_1)]
    with pytest.raises(ActionFailed) as failed:
        await begin(cluster, {ON_3: SECOND}, timeout_s)

    expected = "Timed out before log directory move could be started for: orders-0-3"
    assert str(failed.value) == expected


async def test_an_unknown_log_dir_is_refused_in_kafkas_words() -> None:
    with pytest.raises(ReassignProblem) as refused:
        await begin(two_log_dirs(), {ON_1: "/elsewhere"})

    assert str(refused.value) == "Failed to alter dir for orders-0-1: LOG_DIR_NOT_FOUND"


async def test_a_move_without_permission_is_refused() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.Deny("alter_log_dirs"))

    with pytest.raises(ReassignProblem, match=r"^Failed to alter dir for orders-0-1: .+"):
        await begin(cluster, {ON_1: SECOND})


async def test_a_broker_that_is_down_ends_the_attempt() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.Kill(1))

    with pytest.raises(ClusterError):
        await begin(cluster, {ON_1: SECOND})


async def test_a_replica_that_is_in_no_live_log_dir_has_none() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.FailLogDir(1, SECOND))
    every = [ON_1, Replica(T1, 1), ON_3]

    dirs = await read_dirs(cluster.reader(), every, {1, 2, 3})

    assert dirs.current == {ON_1: FIRST, Replica(T1, 1): None, ON_3: None}
    assert await known_dirs(cluster.reader(), {T0: (1, 3), T1: (1,)}, {1, 2, 3}) == {ON_1: FIRST}


@pytest.mark.parametrize("online", [{1}, {1, 2}], ids=["known to be down", "not known yet"])
async def test_replicas_on_a_broker_that_does_not_answer_are_left_out(online: set[int]) -> None:
    cluster = two_log_dirs()
    cluster.do(layout.Kill(2))
    wait(cluster, 1.0)

    assert (await read_dirs(cluster.reader(), [ON_1, ON_2], online)).current == {ON_1: FIRST}
