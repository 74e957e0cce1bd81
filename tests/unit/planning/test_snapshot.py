"""A snapshot of a cluster has what a plan needs, without what cannot be read."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ktui.cluster.errors import Operation, TimedOut, Unsupported
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, LogDirsAnswer, TopicConfigsAnswer, TopicsAnswer
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import ClusterSnapshot, Severity
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.reader import SimulatedReader
from support.simulated.moving_clusters import a_cluster, move, throttle, tp, wait

PLAN = Plan((PartitionTarget("orders", 0, (4, 2, 3)), PartitionTarget("orders", 1, (2, 3, 1))))
SIZE = 1_000_000_000


def orders() -> SimulatedCluster:
    return a_cluster({"orders": [(1, 2, 3), (2, 3, 1), (5, 6, 7)], "payments": [(5, 6, 7)]})


async def test_sizes_are_read_for_the_plans_partitions_at_their_leaders() -> None:
    seen = await take_snapshot(orders().reader(), PLAN)

    assert seen.sizes == {Replica(tp("orders-0"), 1): SIZE, Replica(tp("orders-1"), 2): SIZE}
    assert (seen.size(tp("orders-0")), seen.size(tp("orders-2"))) == (SIZE, None)
    assert seen.failures == ()


async def test_brokers_report_the_log_dirs_of_replicas_for_which_the_plan_names_one() -> None:
    dirs = ("/var/lib/kafka/data", "any", "any")
    plan = Plan((PartitionTarget("orders", 0, (3, 4, 2), dirs),))

    seen = await take_snapshot(orders().reader(), plan)

    assert seen.held_in == {Replica(tp("orders-0"), 3): "/var/lib/kafka/data"}
    assert seen.size(tp("orders-0")) == SIZE


async def test_only_brokers_that_have_or_gain_replicas_are_asked() -> None:
    seen = await take_snapshot(orders().reader(), PLAN)

    assert set(seen.log_dirs) == set(seen.broker_configs) == {1, 2, 3, 4}
    assert {each.broker for dirs in seen.log_dirs.values() for each in dirs} == {1, 2, 3, 4}


async def test_throttles_of_brokers_are_read() -> None:
    cluster = orders()
    cluster.do(throttle("follower", 4, 5_000_000))

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert seen.broker_configs[4].follower_throttle_rate == 5_000_000


async def test_a_topic_that_brokers_do_not_know_by_its_name_in_the_metadata_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def renamed(_: SimulatedReader, names: Collection[str]) -> TopicConfigsAnswer:
        return TopicConfigsAnswer({}, absent=tuple(names))

    monkeypatch.setattr(SimulatedReader, "topic_configs", renamed)

    seen = await take_snapshot(orders().reader(), PLAN)

    assert seen.denied_by_brokers == {"orders"}
    assert not orders_can_be_started(seen)


def orders_can_be_started(seen: ClusterSnapshot) -> bool:
    return all(finding.severity is not Severity.PROBLEM for finding in check_plan(PLAN, seen))


async def test_brokers_that_are_down_are_not_asked() -> None:
    cluster = SimulatedCluster(orders().spec, VirtualClock(leaping=True))
    cluster.do(layout.Shutdown(4))
    wait(cluster, 5.0)

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert 4 not in seen.log_dirs
    assert seen.failures == ()


async def test_denied_log_dirs_and_settings_are_missing_and_named_by_broker() -> None:
    cluster = orders()
    cluster.do(layout.Deny("log_dirs"))
    cluster.do(layout.Deny("broker_config"))

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert (seen.sizes, seen.log_dirs, seen.broker_configs) == ({}, {}, {})
    assert [(f.operation, f.broker, f.denied) for f in seen.failures] == [
        (operation, broker, True)
        for operation in (Operation.LOG_DIRS, Operation.BROKER_CONFIGS)
        for broker in (1, 2, 3, 4)
    ]


async def test_denied_topic_settings_are_missing_and_named() -> None:
    cluster = orders()
    cluster.do(layout.Deny("topic_configs"))

    seen = await take_snapshot(cluster.reader(), PLAN)

    assert seen.configs == {}
    assert [(f.operation, f.topic, f.denied) for f in seen.failures] == [
        (Operation.TOPIC_CONFIGS, "orders", True)
    ]


async def test_a_broker_that_does_not_answer_leaves_only_its_own_figures_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = SimulatedReader.log_dirs

    async def log_dirs(
        reader: SimulatedReader, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        if broker == 1:
            raise TimedOut("describing log dirs", where="broker 1")
        return await answer(reader, broker, partitions)

    monkeypatch.setattr(SimulatedReader, "log_dirs", log_dirs)

    seen = await take_snapshot(orders().reader(), PLAN)

    assert seen.sizes == {Replica(tp("orders-1"), 2): SIZE}
    assert set(seen.log_dirs) == {2, 3, 4}
    assert [(f.broker, f.denied) for f in seen.failures] == [(1, False)]


@pytest.mark.parametrize("trouble", [Unsupported, TimedOut])
async def test_a_snapshot_falls_back_to_metadata_that_may_not_be_fresh(
    monkeypatch: pytest.MonkeyPatch, trouble: type[Unsupported | TimedOut]
) -> None:
    asked: list[bool] = []
    answer = SimulatedReader.describe_topics

    async def describe_topics(
        reader: SimulatedReader, names: Collection[str], *, fresh: bool = False
    ) -> TopicsAnswer:
        asked.append(fresh)
        if fresh:
            raise trouble("waiting for fresh metadata")
        return await answer(reader, names)

    monkeypatch.setattr(SimulatedReader, "describe_topics", describe_topics)

    seen = await take_snapshot(orders().reader(), PLAN)

    assert asked == [True, False]
    assert tp("orders-0") in seen.partitions


async def test_a_partition_that_someone_else_moves_has_the_size_of_its_leader() -> None:
    cluster = orders()
    cluster.do(move("orders-0", 6, 2, 3))
    wait(cluster, 1.0)
    reader: ClusterReader = cluster.reader()

    seen = await take_snapshot(reader, PLAN)

    assert tp("orders-0") in seen.listed
    assert seen.size(tp("orders-0")) == SIZE
