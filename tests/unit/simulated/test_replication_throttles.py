"""The simulated replication: throttles and log dirs."""

from __future__ import annotations

from typing import Any

import pytest

from ktui.cluster.broker import FutureReplica, ReplicaDir
from ktui.cluster.partition import TopicPartition
from ktui.planning.throttle_rates import WINDOW_S
from ktui.simulated.data.flows import EVERYWHERE, NOWHERE, ThrottledReplicas
from ktui.simulated.data.replication import CaughtUp
from support.simulated.witness import MB, DataPlane, broker, data_plane, topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def follower_throttle(plane: DataPlane, broker: int, rate: float | None) -> None:
    plane.replication.set_throttle_rates(broker, follower=rate, leader=None)


def leader_throttle(plane: DataPlane, broker: int, rate: float | None) -> None:
    plane.replication.set_throttle_rates(broker, follower=None, leader=rate)


def throttled(
    plane: DataPlane,
    *,
    followers: ThrottledReplicas = NOWHERE,
    leaders: ThrottledReplicas = NOWHERE,
    name: str = "t",
) -> None:
    plane.replication.set_throttled_replicas(name, followers=followers, leaders=leaders)


def moving(*, inbound: float = 0.0, followers: int = 1) -> DataPlane:
    """A partition led by broker 0 with in-sync followers, which broker 3 begins to copy."""
    replicas = tuple(range(followers + 1))
    plane = data_plane(topic("t", replicas, bytes_each=1_000 * MB, inbound=inbound))
    plane.add(T0, 3)
    return plane


def test_a_followers_throttle_binds_the_replicas_listed_for_it() -> None:
    plane = moving()
    follower_throttle(plane, 3, 5.0 * MB)
    assert plane.replication.rate(T0, 3) == 100 * MB
    throttled(plane, followers=ThrottledReplicas({(0, 3)}))
    assert plane.replication.rate(T0, 3) == 5 * MB


def test_a_list_of_other_partitions_or_brokers_has_no_effect() -> None:
    plane = moving()
    follower_throttle(plane, 3, 5.0 * MB)
    throttled(plane, followers=ThrottledReplicas({(1, 3), (0, 2)}))
    assert plane.replication.rate(T0, 3) == 100 * MB


def test_a_star_binds_every_replica_of_the_topic() -> None:
    plane = moving()
    follower_throttle(plane, 3, 5.0 * MB)
    throttled(plane, followers=EVERYWHERE)
    assert plane.replication.rate(T0, 3) == 5 * MB
    throttled(plane, followers=NOWHERE)
    assert plane.replication.rate(T0, 3) == 100 * MB


def test_replicas_on_one_broker_share_its_throttle() -> None:
    plane = data_plane(topic("t", (0,), (1,), bytes_each=1_000 * MB))
    plane.add(T0, 3)
    plane.add(T1, 3)
    follower_throttle(plane, 3, 6.0 * MB)
    throttled(plane, followers=EVERYWHERE)
    assert plane.replication.rate(T0, 3) == plane.replication.rate(T1, 3) == 3 * MB


def test_copies_get_their_share_of_a_throttle_that_counts_more_than_they_bring() -> None:
    spec = topic("t", (0,), (1,), bytes_each=1_000 * MB)
    plane = data_plane(spec, brokers=[broker(n, throttle_share=0.5) for n in range(4)])
    plane.add(T0, 3)
    plane.add(T1, 3)
    follower_throttle(plane, 3, 6.0 * MB)
    throttled(plane, followers=EVERYWHERE)
    assert plane.replication.rate(T0, 3) == plane.replication.rate(T1, 3) == 1.5 * MB
    assert plane.replication.holds_back(T0, 3)
    follower_throttle(plane, 3, None)
    assert plane.replication.rate(T0, 3) == 50 * MB


def test_a_removed_throttle_limits_nothing() -> None:
    plane = moving()
    throttled(plane, followers=EVERYWHERE)
    follower_throttle(plane, 3, 5.0 * MB)
    plane.run(100.0)
    follower_throttle(plane, 3, None)
    assert plane.replication.rate(T0, 3) == 100 * MB


def test_in_sync_traffic_of_listed_replicas_counts_towards_the_follower_throttle() -> None:
    in_sync = topic("s", (0, 3), inbound=2.0 * MB)
    plane = data_plane(topic("t", (1,), bytes_each=1_000 * MB), in_sync)
    plane.add(T0, 3)
    follower_throttle(plane, 3, 5.0 * MB)
    throttled(plane, followers=EVERYWHERE)
    assert plane.replication.rate(T0, 3) == 5 * MB
    throttled(plane, followers=EVERYWHERE, name="s")
    assert plane.replication.rate(T0, 3) == 3 * MB


def test_a_leaders_throttle_binds_followers_outside_the_isr() -> None:
    plane = moving()
    leader_throttle(plane, 0, 5.0 * MB)
    throttled(plane, leaders=ThrottledReplicas({(0, 0)}))
    assert plane.replication.rate(T0, 3) == 5 * MB
    plane.decide(T0, leader=1)
    assert plane.replication.rate(T0, 3) == 100 * MB


def test_a_leaders_throttle_does_not_bind_a_lagging_member_of_the_isr() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=10 * MB, inbound=1.0 * MB))
    throttled(plane, leaders=EVERYWHERE)
    leader_throttle(plane, 0, 2.0 * MB)
    plane.replication.broker_down(1)
    plane.run(10.0)
    plane.replication.broker_up(1)
    assert plane.replication.rate(T0, 1) == 100 * MB


def test_a_leaders_throttle_below_the_in_sync_traffic_starves_the_move_for_good() -> None:
    plane = moving(inbound=4.0 * MB, followers=2)
    throttled(plane, leaders=EVERYWHERE)
    leader_throttle(plane, 0, 6.0 * MB)
    plane.run(3_600.0)
    assert (plane.end(T0, 3), plane.replication.rate(T0, 3)) == (0, 0.0)
    leader_throttle(plane, 0, 9.0 * MB)
    assert plane.replication.rate(T0, 3) == pytest.approx(1 * MB)


def test_a_lowered_throttle_stays_shut_until_the_window_average_is_below_it() -> None:
    plane = moving()
    throttled(plane, followers=EVERYWHERE)
    follower_throttle(plane, 3, 30.0 * MB)
    plane.run(20.0)
    follower_throttle(plane, 3, 2.0 * MB)
    opens_s = 20 + WINDOW_S * (1 - 2 / 30)
    assert plane.replication.rate(T0, 3) == 0.0
    plane.run(opens_s - 0.1)
    assert plane.end(T0, 3) == 600_000
    plane.run(opens_s + 1)
    assert plane.end(T0, 3) == 602_000


def test_a_throttle_lowered_twice_stays_shut_from_the_first_change() -> None:
    plane = moving()
    throttled(plane, followers=EVERYWHERE)
    follower_throttle(plane, 3, 30.0 * MB)
    plane.run(10.0)
    follower_throttle(plane, 3, 15.0 * MB)
    plane.run(12.0)
    follower_throttle(plane, 3, 3.0 * MB)
    plane.run(10 + WINDOW_S * 0.9 - 0.1)
    assert plane.end(T0, 3) == 300_000
    plane.run(10 + WINDOW_S * 0.9 + 1)
    assert plane.end(T0, 3) == 303_000


def test_a_throttle_that_is_raised_or_set_again_applies_at_once() -> None:
    plane = moving()
    throttled(plane, followers=EVERYWHERE)
    follower_throttle(plane, 3, 5.0 * MB)
    plane.run(20.0)
    follower_throttle(plane, 3, 5.0 * MB)
    assert plane.replication.rate(T0, 3) == 5 * MB
    follower_throttle(plane, 3, 8.0 * MB)
    assert plane.replication.rate(T0, 3) == 8 * MB


def test_a_replica_taken_off_the_list_continues_unthrottled_from_its_position() -> None:
    plane = moving()
    throttled(plane, followers=EVERYWHERE)
    follower_throttle(plane, 3, 10.0 * MB)
    plane.run(10.0)
    throttled(plane, followers=NOWHERE)
    assert plane.end(T0, 3) == 100_000
    assert plane.run(60.0) == [(pytest.approx(19.0), CaughtUp(T0, 3))]


def test_a_throttle_of_zero_holds_back_even_an_empty_partition() -> None:
    plane = data_plane(topic("t", (0,)))
    follower_throttle(plane, 1, 0.0)
    throttled(plane, followers=EVERYWHERE)
    plane.add(T0, 1)
    assert plane.run(60.0) == []


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
A, B, C = broker(0, log_dirs=3).log_dir_paths


def plane_of(*replicas: tuple[int, ...], log_dirs: int = 2, **has: Any) -> DataPlane:
    """Return brokers 0 to 3 with two log dirs each, and a topic of 100 MB a partition."""
    brokers = [broker(number, log_dirs=log_dirs) for number in range(4)]
    return data_plane(topic("t", *replicas, **{"bytes_each": 100 * MB, **has}), brokers=brokers)


def place(plane: DataPlane, tp: TopicPartition = T0, number: int = 0) -> ReplicaDir:
    found = plane.replication.replica_dir(tp, number)
    assert found is not None
    return found


def move(plane: DataPlane, path: str, tp: TopicPartition = T0, number: int = 0) -> str | None:
    return plane.replication.alter_log_dir(tp, number, path)


def throttle(plane: DataPlane, rate: float | None) -> None:
    plane.replication.set_throttle_rates(0, follower=None, leader=None, log_dir=rate)


def test_a_new_replica_goes_to_the_log_dir_with_the_fewest() -> None:
    plane = plane_of(*[(0,)] * 5, log_dirs=3)
    held = [place(plane, TopicPartition("t", number)).path for number in range(5)]
    assert held == [A, B, C, A, B]

    plane.add(T0, 1)
    assert place(plane, T0, 1).path == A


def test_the_replicas_of_a_deleted_topic_leave_room_in_their_log_dirs() -> None:
    plane = plane_of((0,))
    plane.delete("t")
    plane.create(topic("u", (0,)))
    assert place(plane, TopicPartition("u", 0)).path == A


def test_a_move_copies_at_the_rate_of_the_machine_and_swaps_at_the_end() -> None:
    plane = plane_of((0,))
    assert move(plane, B) is None
    assert place(plane) == ReplicaDir(A, 100 * MB, FutureReplica(B, 0, 100_000))

    plane.run(0.4)
    assert place(plane) == ReplicaDir(A, 100 * MB, FutureReplica(B, 40 * MB, 60_000))

    assert plane.run(1.1) == []
    assert place(plane) == ReplicaDir(B, 100 * MB)


def test_a_move_catches_up_with_what_producers_write() -> None:
    plane = plane_of((0, 1), inbound=20.0 * MB)
    move(plane, B)
    plane.run(1.6)
    assert place(plane).future is not None
    plane.run(1.7)  # 80 MB/s are left for the copy, 60 MB/s of them gain on the producers
    assert place(plane).path == B


def test_all_moves_of_a_broker_share_its_throttle() -> None:
    plane = plane_of((0,), (0,))
    throttle(plane, 4.0 * MB)
    move(plane, B)
    move(plane, A, T1)
    plane.run(10.0)
    futures = [place(plane, tp).future for tp in (T0, T1)]
    assert [future and future.size for future in futures] == [20 * MB, 20 * MB]


def test_the_throttle_of_log_dirs_binds_neither_producers_nor_followers() -> None:
    plane = plane_of((0,), inbound=20.0 * MB)
    throttle(plane, 1.0 * MB)
    plane.add(T0, 1)
    assert plane.replication.rate(T0, 0) == 20 * MB
    assert plane.replication.rate(T0, 1) == 100 * MB


def test_a_throttle_lowered_below_a_moves_rate_lets_nothing_through_at_first() -> None:
    plane = plane_of((0,), bytes_each=1_000 * MB)
    move(plane, B)
    plane.run(1.0)
    throttle(plane, 10.0 * MB)
    plane.run(10.0)
    assert place(plane).future == FutureReplica(B, 100 * MB, 900_000)
    plane.run(12.0)
    future = place(plane).future
    assert future is not None
    assert future.size > 100 * MB


def test_a_copy_takes_disk_space_until_the_move_ends() -> None:
    plane = plane_of((0,))
    move(plane, B)
    plane.run(0.5)
    assert plane.replication.used(0) == 150 * MB
    move(plane, A)
    assert plane.replication.used(0) == 100 * MB


def test_the_same_log_dir_again_lets_a_move_continue_and_another_one_begins_anew() -> None:
    plane = plane_of((0,), log_dirs=3)
    move(plane, B)
    plane.run(0.4)
    move(plane, B)
    assert place(plane).future == FutureReplica(B, 40 * MB, 60_000)
    move(plane, C)
    assert place(plane).future == FutureReplica(C, 0, 100_000)


def test_a_replica_that_still_copies_from_its_leader_moves_once_it_is_in_step() -> None:
    plane = plane_of((0,))
    plane.add(T0, 1)
    move(plane, B, T0, 1)
    plane.run(0.9)
    future = place(plane, T0, 1).future
    assert future is not None
    assert future.size == 0
    plane.run(2.1)
    assert place(plane, T0, 1) == ReplicaDir(B, 100 * MB)


def test_a_move_stands_still_while_its_broker_is_down() -> None:
    plane = plane_of((1, 0))
    move(plane, B)
    plane.run(0.4)
    plane.replication.broker_down(0)
    plane.run(5.0)
    assert place(plane).future == FutureReplica(B, 40 * MB, 60_000)
    plane.replication.broker_up(0)
    plane.run(5.7)
    assert place(plane).path == B


def test_a_replica_taken_away_takes_its_move_with_it() -> None:
    plane = plane_of((1, 0))
    move(plane, B)
    plane.run(0.4)
    plane.drop(T0, 0)
    assert plane.replication.replica_dir(T0, 0) is None
    assert plane.replication.used(0) == 0
    plane.add(T0, 0)
    assert place(plane) == ReplicaDir(A, 0)


def test_a_remembered_log_dir_serves_one_replica_once() -> None:
    plane = plane_of((1,))
    assert move(plane, B) == "REPLICA_NOT_AVAILABLE"
    plane.add(T0, 0)
    assert place(plane).path == B
    plane.drop(T0, 0)
    plane.add(T0, 0)
    assert place(plane).path == A


def test_the_log_dir_for_a_topic_that_comes_later_is_remembered() -> None:
    plane = plane_of()
    later = TopicPartition("later", 0)
    assert move(plane, B, later) == "UNKNOWN_TOPIC_OR_PARTITION"
    plane.create(topic("later", (0,)))
    assert place(plane, later).path == B


def test_a_lost_log_dir_takes_its_replicas_and_the_copies_into_and_out_of_it() -> None:
    plane = plane_of((1, 0), (1, 0), bytes_each=1_000 * MB)
    move(plane, B, T0)
    move(plane, A, T1)
    plane.run(1.0)

    assert plane.replication.fail_log_dir(0, B) == [T1]

    assert place(plane, T0) == ReplicaDir(A, 1_000 * MB)
    assert plane.replication.replica_dir(T1, 0) is None
    assert plane.replication.end(T1, 0) is None
    assert plane.replication.used(0) == 1_000 * MB
    assert move(plane, B, T0) == move(plane, A, T1) == "KAFKA_STORAGE_ERROR"


def test_new_replicas_avoid_a_lost_log_dir() -> None:
    plane = plane_of((1,), (1,))
    assert move(plane, B, T0) == "REPLICA_NOT_AVAILABLE"
    plane.replication.fail_log_dir(0, B)
    plane.add(T0, 0)
    plane.add(T1, 0)
    assert (place(plane, T0).path, place(plane, T1).path) == (A, A)


def test_a_lost_replica_that_is_assigned_again_copies_nothing() -> None:
    plane = plane_of((1, 0), (1, 0))
    plane.replication.fail_log_dir(0, B)
    plane.drop(T1, 0)
    plane.add(T1, 0)
    assert plane.run(60.0) == []
    assert plane.replication.replica_dir(T1, 0) is None


@pytest.mark.parametrize("path", ["/elsewhere", f"{A}/", ""])
def test_only_the_exact_path_of_a_log_dir_is_known(path: str) -> None:
    assert move(plane_of((0,)), path) == "LOG_DIR_NOT_FOUND"
