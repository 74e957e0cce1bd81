"""Brokers that die, hang, slow down and come back, and the effect on their replicas."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.simulated.data.replication import CaughtUp, FellBehind
from ktui.simulated.layout import Tide
from support.simulated.data_plane import MB, broker, data_plane, topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_producers_do_not_write_to_a_leader_that_is_down() -> None:
    plane = data_plane(topic("t", (0, 1), inbound=1_000.0))
    plane.run(5.0)
    plane.replication.broker_down(0)
    plane.run(20.0)
    assert (plane.end(T0, 0), plane.end(T0, 1)) == (5, 5)
    plane.decide(T0, leader=1, isr=(1,))
    plane.run(25.0)
    assert (plane.end(T0, 0), plane.end(T0, 1)) == (5, 10)


def test_producers_do_not_write_to_a_partition_without_leader() -> None:
    plane = data_plane(topic("t", (0, 1), inbound=1_000.0))
    plane.decide(T0, leader=None)
    plane.run(20.0)
    assert (plane.end(T0, 0), plane.replication.rate(T0, 0)) == (0, 0.0)
    plane.decide(T0, leader=0)
    plane.run(25.0)
    assert plane.end(T0, 0) == 5


def test_a_follower_that_is_down_stands_still_and_copies_again_when_it_is_back() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=1 * MB, inbound=1.0 * MB))
    plane.replication.broker_down(1)
    plane.replication.broker_down(1)
    plane.run(99.0)
    assert (plane.end(T0, 1), plane.lag(T0, 1)) == (1_000, 99_000)
    plane.decide(T0, isr=(0,))
    plane.replication.broker_up(1)
    assert plane.run(200.0) == [(pytest.approx(100.0), CaughtUp(T0, 1))]


def test_a_follower_that_missed_nothing_asks_to_rejoin_the_isr_at_once() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=1 * MB))
    plane.replication.broker_down(1)
    plane.decide(T0, isr=(0,))
    plane.run(9.0)
    plane.replication.broker_up(1)
    assert plane.run(60.0) == [(9.0, CaughtUp(T0, 1))]


def test_a_healthy_follower_dropped_from_the_isr_asks_to_rejoin() -> None:
    plane = data_plane(topic("t", (0, 1), inbound=1_000.0))
    plane.decide(T0, isr=(0,))
    assert plane.run(60.0) == [(0.0, CaughtUp(T0, 1))]


def test_each_replica_rejoins_after_all_were_down() -> None:
    plane = data_plane(topic("t", (0, 1, 2), inbound=1_000.0))
    for down in range(3):
        plane.replication.broker_down(down)
    plane.decide(T0, isr=(2,), leader=None)
    plane.run(30.0)
    for up in range(3):
        plane.replication.broker_up(up)
    assert plane.run(40.0) == []
    plane.decide(T0, leader=2)
    assert [event for _, event in plane.run(60.0)] == [CaughtUp(T0, 0), CaughtUp(T0, 1)]


def test_a_move_waits_while_its_destination_is_down() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=300 * MB))
    plane.add(T0, 2)
    plane.run(1.0)
    plane.replication.broker_down(2)
    plane.run(50.0)
    assert plane.end(T0, 2) == 100_000
    plane.replication.broker_up(2)
    assert plane.run(60.0) == [(pytest.approx(52.0), CaughtUp(T0, 2))]


def test_a_move_waits_while_its_source_is_down() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=300 * MB))
    plane.add(T0, 2)
    plane.run(1.0)
    plane.replication.broker_down(0)
    plane.run(10.0)
    assert (plane.end(T0, 2), plane.replication.rate(T0, 2)) == (100_000, 0.0)
    plane.decide(T0, leader=1, isr=(1,))
    assert plane.run(20.0)[0] == (pytest.approx(12.0), CaughtUp(T0, 2))


def test_a_replica_ahead_of_an_unclean_leader_is_truncated() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=1 * MB, inbound=1.0 * MB))
    plane.replication.broker_down(1)
    plane.run(20.0)
    plane.decide(T0, isr=(0,))
    plane.replication.broker_down(0)
    plane.replication.broker_up(1)
    plane.decide(T0, leader=1, isr=(1,), leader_epoch=1)
    assert (plane.end(T0, 0), plane.end(T0, 1)) == (1_000, 1_000)
    plane.run(22.0)
    plane.replication.broker_up(0)
    assert (plane.end(T0, 0), plane.end(T0, 1)) == (1_000, 3_000)
    plane.run(30.0)
    assert plane.lag(T0, 0) == 0


def test_a_member_of_the_isr_that_lags_for_too_long_falls_behind() -> None:
    plane = data_plane(topic("t", (0, 1), inbound=1_000.0), lag_time_max_s=30.0)
    plane.run(5.0)
    plane.replication.broker_down(1)
    assert plane.run(70.0) == [(35.0, FellBehind(T0, 1)), (65.0, FellBehind(T0, 1))]
    plane.decide(T0, isr=(0,))
    assert plane.run(200.0) == []


def test_a_member_of_the_isr_that_misses_nothing_does_not_fall_behind() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=1_000), lag_time_max_s=30.0)
    plane.replication.broker_down(1)
    assert plane.run(300.0) == []
    plane.replication.set_inbound("t", 1_000.0)
    assert next(event for _, event in plane.run(400.0)) == FellBehind(T0, 1)


def test_a_new_leader_gives_its_followers_the_full_lag_time() -> None:
    plane = data_plane(topic("t", (0, 1, 2), inbound=1_000.0), lag_time_max_s=30.0)
    plane.replication.broker_down(1)
    plane.run(20.0)
    plane.decide(T0, leader=2)
    assert plane.run(60.0) == [(50.0, FellBehind(T0, 1))]


def test_a_broker_too_slow_for_its_producers_falls_behind_on_every_partition() -> None:
    spec = topic("t", (0, 1), (2, 1), inbound=10.0 * MB)
    plane = data_plane(spec, lag_time_max_s=30.0)
    plane.run(10.0)
    plane.replication.slow(1, 0.1)
    assert plane.replication.rate(T0, 1) == pytest.approx(5 * MB)
    assert plane.run(45.0) == [(40.0, FellBehind(T0, 1)), (40.0, FellBehind(T1, 1))]
    assert plane.lag(T0, 1) == pytest.approx(35 * 5_000, abs=1)


def test_a_slow_broker_keeps_up_with_small_topics_only() -> None:
    small, big = topic("small", (0, 1), inbound=1.0 * MB), topic("big", (0, 1), inbound=50.0 * MB)
    plane = data_plane(small, big, lag_time_max_s=30.0)
    plane.replication.slow(1, 0.1)
    assert plane.run(40.0) == [(30.0, FellBehind(TopicPartition("big", 0), 1))]
    assert plane.lag(TopicPartition("small", 0), 1) == 0
    assert plane.replication.rate(TopicPartition("big", 0), 1) == pytest.approx(9 * MB)


def test_a_leader_too_slow_to_serve_its_followers_leaves_them_behind() -> None:
    brokers = [broker(0, net_out=15.0 * MB), broker(1), broker(2)]
    plane = data_plane(topic("t", (0, 1, 2), inbound=10.0 * MB), brokers=brokers)
    assert plane.replication.rate(T0, 1) == pytest.approx(7.5 * MB)
    assert [event for _, event in plane.run(31.0)] == [FellBehind(T0, 1), FellBehind(T0, 2)]


def test_a_broker_that_is_fast_again_in_time_does_not_fall_behind() -> None:
    plane = data_plane(topic("t", (0, 1), inbound=20.0 * MB), lag_time_max_s=30.0)
    plane.replication.slow(1, 0.1)
    plane.run(20.0)
    plane.replication.slow(1, 1.0)
    assert plane.run(300.0) == []
    assert plane.lag(T0, 1) == 0


def test_a_high_tide_is_too_much_for_a_broker_that_copes_on_average() -> None:
    plane = data_plane(
        topic("t", (0, 1), inbound=80.0 * MB), tide=Tide(swing=0.5), lag_time_max_s=30.0
    )
    happened = plane.run(3_600.0)
    assert [event for _, event in happened][:1] == [FellBehind(T0, 1)]
    assert 0 < happened[0][0] < 1_800
    plane.run(3_600.0)
    assert plane.lag(T0, 1) == 0
