"""The simulated replication: copying, disks and faults."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.simulated.data.replication import CaughtUp, DiskFull, FellBehind
from ktui.simulated.layout import Tide
from support.simulated.witness import MB, broker, data_plane, topic

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


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_broker_uses_the_disk_space_of_its_replicas() -> None:
    plane = data_plane(topic("t", (0, 1), (1, 2), bytes_each=10 * MB, inbound=1.0 * MB))
    plane.run(5.0)
    assert [plane.replication.used(b) for b in range(4)] == [15 * MB, 30 * MB, 15 * MB, 0]


def test_a_copy_takes_disk_space_as_it_grows() -> None:
    plane = data_plane(topic("t", (0,), bytes_each=500 * MB))
    plane.add(T0, 1)
    plane.run(2.0)
    assert plane.replication.used(1) == plane.replication.size(T0, 1) == 200 * MB


def test_retention_moves_the_log_start_to_stay_within_its_limit() -> None:
    kept = topic("t", (0, 1), inbound=1.0 * MB, configs={"retention.bytes": str(30 * MB)})
    plane = data_plane(kept)
    plane.run(20.0)
    assert (plane.replication.start(T0), plane.replication.used(1)) == (0, 20 * MB)
    plane.run(50.0)
    assert (plane.replication.start(T0), plane.end(T0, 0)) == (20_000, 50_000)
    assert plane.replication.size(T0, 0) == plane.replication.used(1) == 30 * MB


def test_lowered_retention_deletes_at_once_and_raising_it_restores_nothing() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=100 * MB))
    plane.replication.set_retention("t", 40 * MB)
    assert plane.replication.used(0) == 40 * MB
    plane.replication.set_retention("t", None)
    assert (plane.replication.start(T0), plane.replication.used(0)) == (60_000, 40 * MB)


def test_retention_of_minus_one_keeps_everything() -> None:
    plane = data_plane(topic("t", (0,), bytes_each=5 * MB, configs={"retention.bytes": "-1"}))
    assert plane.replication.size(T0, 0) == 5 * MB


def test_an_added_replica_starts_at_the_log_start() -> None:
    plane = data_plane(topic("t", (0,), bytes_each=300 * MB))
    plane.replication.set_retention("t", 200 * MB)
    plane.add(T0, 1)
    assert (plane.end(T0, 1), plane.replication.size(T0, 1)) == (100_000, 0)
    assert plane.run(10.0) == [(pytest.approx(2.0), CaughtUp(T0, 1))]


def test_a_copy_overtaken_by_retention_continues_from_the_log_start() -> None:
    brokers = [broker(0), broker(1, net_in=1.0 * MB)]
    kept = topic("t", (0,), inbound=5.0 * MB, configs={"retention.bytes": str(50 * MB)})
    plane = data_plane(kept, brokers=brokers)
    plane.run(10.0)
    plane.add(T0, 1)
    plane.run(110.0)
    assert plane.end(T0, 1) == plane.replication.start(T0) == 500_000
    assert plane.replication.used(1) == 0
    plane.replication.slow(1, 10.0)
    assert plane.run(200.0) == [(pytest.approx(120.0), CaughtUp(T0, 1))]


def test_a_disk_runs_full_when_its_last_byte_is_written() -> None:
    brokers = [broker(0), broker(1, disk_bytes=1_000 * MB)]
    plane = data_plane(topic("t", (0,), bytes_each=5_000 * MB), brokers=brokers)
    plane.add(T0, 1)
    assert plane.run(20.0) == [(pytest.approx(10.0, abs=0.01), DiskFull(1))]


def test_producers_fill_disks_too() -> None:
    brokers = [broker(0), broker(1, disk_bytes=100 * MB)]
    plane = data_plane(topic("t", (0, 1), inbound=10_000.0), brokers=brokers)
    assert plane.run(20_000.0) == [(pytest.approx(10_000.0, abs=1.0), DiskFull(1))]


def test_data_deleted_by_retention_does_not_fill_a_disk() -> None:
    brokers = [broker(0, disk_bytes=100 * MB)]
    kept = topic("t", (0,), inbound=1.0 * MB, configs={"retention.bytes": str(90 * MB)})
    plane = data_plane(kept, brokers=brokers)
    assert plane.run(86_400.0) == []


def test_other_data_can_fill_a_disk_up_to_a_given_room() -> None:
    plane = data_plane(topic("t", (0,), inbound=1.0 * MB))
    plane.run(10.0)
    plane.replication.fill_disk(0, 50 * MB)
    assert plane.replication.used(0) == broker(0).disk_bytes - 50 * MB
    assert plane.run(100.0) == [(pytest.approx(60.0, abs=0.01), DiskFull(0))]


def test_a_disk_still_full_fails_again_when_its_broker_comes_back() -> None:
    plane = data_plane(topic("t", (0,), bytes_each=1 * MB))
    plane.replication.fill_disk(0, 0)
    assert plane.run(10.0) == [(0.0, DiskFull(0))]
    plane.replication.broker_down(0)
    assert plane.run(20.0) == []
    plane.replication.broker_up(0)
    assert plane.run(30.0) == [(20.0, DiskFull(0))]


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_producers_write_at_the_topic_rate_and_in_sync_followers_keep_up() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=5_000, inbound=2_000.0))
    assert plane.end(T0, 0) == 5
    plane.run(10.0)
    assert plane.end(T0, 0) == plane.end(T0, 1) == 25
    assert plane.replication.size(T0, 1) == 25_000
    assert plane.replication.rate(T0, 1) == 2_000.0


def test_a_cluster_without_copies_has_no_event_for_hours() -> None:
    plane = data_plane(topic("t", (0, 1), inbound=2_000.0), tide=Tide(swing=0.3, noise=0.1))
    plane.run(1.0)
    assert plane.replication.next_event_s() > 2 * 3_600


def test_log_ends_are_whole_messages() -> None:
    plane = data_plane(topic("t", (0,), message_bytes=700, inbound=1_000.0))
    plane.run(1.0)
    assert plane.end(T0, 0) == 1


def test_the_tide_affects_all_topics_equally() -> None:
    spec = (topic("t", (0,), inbound=1_000.0), topic("u", (1,), inbound=3_000.0))
    plane = data_plane(*spec, tide=Tide(swing=0.5, period_s=3_600.0))
    plane.run(1_800.0)
    assert plane.end(T0, 0) == pytest.approx(1_800 * (1 + 1 / 3.1416), rel=0.01)
    assert plane.end(TopicPartition("u", 0), 1) == pytest.approx(3 * plane.end(T0, 0), abs=3)


def test_an_added_replica_starts_empty_and_copies_until_it_has_caught_up() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=1_000 * MB))
    plane.add(T0, 2)
    assert (plane.end(T0, 2), plane.replication.size(T0, 2)) == (0, 0)
    assert plane.replication.rate(T0, 2) == 100 * MB
    plane.run(4.0)
    assert (plane.end(T0, 2), plane.lag(T0, 2)) == (400_000, 600_000)
    assert plane.run(20.0) == [(pytest.approx(10.0), CaughtUp(T0, 2))]
    assert plane.lag(T0, 2) == 0


def test_a_broker_takes_in_more_the_more_copies_it_has_at_once() -> None:
    spec = topic("t", (0,), (1,), (0,), bytes_each=1_000 * MB)
    alone = {"copy_in": 60.0 * MB, "copy_half_at": 2.0, "copy_most_at": 2}
    slow_alone = [broker(n, **alone) for n in range(4)]
    plane = data_plane(spec, brokers=slow_alone)
    plane.add(T0, 2)
    assert plane.replication.rate(T0, 2) == 20 * MB
    plane.add(T1, 2)
    assert plane.replication.rate(T0, 2) == plane.replication.rate(T1, 2) == 15 * MB
    plane.add(TopicPartition("t", 2), 2)
    assert plane.replication.rate(T0, 2) == 10 * MB
    plane.drop(TopicPartition("t", 2), 2)
    plane.drop(T1, 2)
    plane.add(T1, 3)
    assert plane.replication.rate(T0, 2) == plane.replication.rate(T1, 3) == 20 * MB


def test_a_new_replica_waits_for_its_first_bytes_and_one_that_is_gone_by_then_never_copies() -> (
    None
):
    spec = topic("t", (0,), (1,), bytes_each=100 * MB)
    plane = data_plane(spec, copy_start_s=0.5)
    plane.add(T0, 2)
    plane.add(T1, 2)
    plane.run(0.4)
    assert plane.replication.rate(T0, 2) == 0.0
    plane.drop(T1, 2)
    assert plane.run(20.0) == [(pytest.approx(1.5), CaughtUp(T0, 2))]


def test_a_growing_log_takes_longer_to_catch_up_with() -> None:
    plane = data_plane(topic("t", (0,), bytes_each=950 * MB, inbound=1.0 * MB))
    plane.add(T0, 1)
    assert plane.run(20.0) == [(pytest.approx(950 / 99), CaughtUp(T0, 1))]


def test_a_follower_slower_than_the_producers_never_catches_up() -> None:
    slow = [broker(0), broker(1, net_in=1.0 * MB)]
    plane = data_plane(topic("t", (0,), bytes_each=10 * MB, inbound=2.0 * MB), brokers=slow)
    plane.add(T0, 1)
    assert plane.run(3_600.0) == []
    assert plane.lag(T0, 1) == 10_000 + 3_600 * 1_000


def test_in_sync_traffic_leaves_less_bandwidth_for_copies() -> None:
    busy = topic("busy", (0, 1), inbound=60.0 * MB)
    plane = data_plane(topic("t", (0,), bytes_each=1_000 * MB), busy)
    plane.add(T0, 2)
    assert plane.replication.rate(T0, 2) == pytest.approx(40 * MB)


def test_flows_that_share_a_broker_share_its_bandwidth() -> None:
    plane = data_plane(topic("t", (0,), (1,), bytes_each=1_000 * MB), brokers=4)
    plane.add(T0, 2)
    plane.add(T1, 2, 3)
    assert plane.replication.rate(T0, 2) == pytest.approx(50 * MB)
    assert plane.replication.rate(T1, 2) == pytest.approx(50 * MB)
    assert plane.replication.rate(T1, 3) == pytest.approx(50 * MB)


def test_a_slow_disk_limits_the_copies_onto_it() -> None:
    brokers = [broker(0), broker(1, disk_write=30.0 * MB)]
    plane = data_plane(topic("t", (0,), bytes_each=1_000 * MB), brokers=brokers)
    plane.add(T0, 1)
    assert plane.replication.rate(T0, 1) == pytest.approx(30 * MB)


def test_remaining_copies_get_the_share_of_a_finished_one() -> None:
    small = topic("small", (0,), bytes_each=100 * MB)
    plane = data_plane(topic("t", (0,), bytes_each=1_000 * MB), small)
    plane.add(T0, 1)
    plane.add(TopicPartition("small", 0), 2)
    assert [at for at, _ in plane.run(60.0)] == [pytest.approx(2.0), pytest.approx(11.0)]


def test_a_replica_not_accepted_by_the_controller_keeps_up_and_asks_every_second() -> None:
    plane = data_plane(topic("t", (0,), bytes_each=100 * MB, inbound=10_000.0))
    plane.add(T0, 1)
    requested_at = [round(at, 1) for at, _ in plane.run(4.5, accepting=False)]
    assert requested_at == [1.0, 2.0, 3.0, 4.0]
    assert plane.lag(T0, 1) == 0
    plane.accept(T0, 1)
    assert plane.run(60.0) == []


def test_a_removed_replica_frees_its_bytes() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=100 * MB))
    plane.add(T0, 2)
    plane.run(0.5)
    assert plane.replication.used(2) == 50 * MB
    plane.drop(T0, 2, 1)
    assert plane.replication.end(T0, 2) is None
    assert (plane.replication.used(0), plane.replication.used(1)) == (100 * MB, 0)
    assert plane.replication.used(2) == 0
    plane.add(T0, 1)
    assert plane.end(T0, 1) == 0


def test_copying_continues_from_the_new_leader_after_a_change() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=200 * MB))
    plane.add(T0, 2)
    plane.run(1.0)
    plane.decide(T0, leader=1, leader_epoch=1)
    assert plane.end(T0, 2) == 100_000
    plane.replication.slow(0, 0.1)
    assert plane.run(5.0) == [(pytest.approx(2.0), CaughtUp(T0, 2))]


def test_a_change_of_the_inbound_rate_applies_from_that_moment() -> None:
    plane = data_plane(topic("t", (0, 1), inbound=1_000.0))
    plane.run(10.0)
    plane.replication.set_inbound("t", 5_000.0)
    plane.run(20.0)
    assert plane.end(T0, 0) == plane.end(T0, 1) == 60
    plane.replication.set_inbound("no such topic", 1.0)


def test_a_deleted_topic_takes_everything_with_it() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=100 * MB, inbound=1_000.0))
    plane.add(T0, 2)
    plane.run(0.5)
    plane.delete("t")
    assert plane.replication.end(T0, 0) is None
    assert [plane.replication.used(b) for b in range(3)] == [0, 0, 0]
    assert plane.run(60.0) == []


def test_a_recreated_topic_starts_from_scratch() -> None:
    plane = data_plane(topic("t", (0, 1), bytes_each=100 * MB))
    plane.delete("t")
    plane.create(topic("t", (1, 2), bytes_each=1_000), topic_id="second")
    assert (plane.end(T0, 1), plane.replication.end(T0, 0)) == (1, None)


def test_a_missing_replica_has_no_offset_and_no_size() -> None:
    plane = data_plane(topic("t", (0, 1)))
    assert plane.replication.end(TopicPartition("t", 9), 0) is None
    assert plane.replication.end(T0, 3) is None
    assert plane.replication.size(T0, 3) == 0


def test_time_goes_neither_back_nor_past_the_next_event() -> None:
    plane = data_plane(topic("t", (0,), bytes_each=100 * MB))
    plane.add(T0, 1)
    with pytest.raises(ValueError, match="the next event"):
        plane.replication.advance(2.0)
    plane.replication.advance(0.5)
    with pytest.raises(ValueError, match="not between"):
        plane.replication.advance(0.4)
