"""Retention, disk usage, and disks that run full."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.simulated.data.replication import CaughtUp, DiskFull
from support.simulated.data_plane import MB, broker, data_plane, topic

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
