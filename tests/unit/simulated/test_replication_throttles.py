"""Replication throttles: which replicas they limit, what counts, and lowering one."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.planning.throttle_rates import WINDOW_S
from ktui.simulated.data.logs import EVERYWHERE, NOWHERE, ThrottledReplicas
from ktui.simulated.data.replication import CaughtUp
from support.simulated.data_plane import MB, DataPlane, broker, data_plane, topic

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
