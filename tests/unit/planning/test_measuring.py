"""The rate of writes to moving partitions is measured once; an unknown rate stays unknown."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from ktui.cluster.errors import Operation, TimedOut
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigSource, OffsetsAnswer
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import MEASURED_S, take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.simulated.counting_reader import CountingReader
from support.simulated.moving_clusters import a_cluster, throttle, tp, wait

PLAN = Plan(
    (
        PartitionTarget("orders", 0, (4, 2, 3)),
        PartitionTarget("orders", 1, (4, 3, 1)),
        PartitionTarget("orders", 2, (3, 2, 1)),
    )
)
"""The last is only reordered: nothing of it is copied."""


def orders(inbound_s: float = 2_000.0, **more: Any) -> SimulatedCluster:
    """A cluster with writes, in virtual time that advances while all tasks wait."""
    topics = {"orders": [(1, 2, 3), (2, 3, 1), (1, 2, 3)]}
    cluster = a_cluster(topics, inbound_s=inbound_s, **more)
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(cluster.spec, clock)
    wait(cluster, 60.0)
    return cluster


async def measured(cluster: SimulatedCluster, plan: Plan = PLAN) -> ClusterSnapshot:
    return await take_snapshot(cluster.reader(), plan, cluster.clock)


async def test_the_inbound_rate_is_measured_for_partitions_that_gain_replicas() -> None:
    seen = await measured(orders())

    assert set(seen.inbound) == {tp("orders-0"), tp("orders-1")}
    assert list(seen.inbound.values()) == pytest.approx([2_000_000] * 2, rel=0.01)
    assert seen.failures == ()


async def test_a_partition_without_writes_has_rate_zero_even_with_an_unknown_size() -> None:
    cluster = orders(0.0)
    cluster.do(layout.Deny("log_dirs"))

    assert (await measured(cluster)).inbound == {tp("orders-0"): 0, tp("orders-1"): 0}


async def test_nothing_is_measured_without_a_throttle() -> None:
    cluster = orders()
    reader = CountingReader(cluster.reader())

    seen = await take_snapshot(reader, PLAN)

    assert (seen.inbound, seen.rates) == ({}, {})
    assert (reader.calls["log_offsets"], reader.calls["settings"]) == (0, 0)


async def test_measuring_takes_two_seconds_and_two_requests_per_leader_at_any_scale() -> None:
    replicas = [(1 + n % 3, 4 + n % 3, 7) for n in range(300)]
    cluster = SimulatedCluster(a_cluster({"orders": replicas}).spec, VirtualClock(leaping=True))
    plan = Plan(tuple(PartitionTarget("orders", n, (*r, 8)) for n, r in enumerate(replicas)))
    reader = CountingReader(cluster.reader())
    began_s = cluster.clock.monotonic()

    seen = await take_snapshot(reader, plan, cluster.clock)

    assert len(seen.inbound) == 300
    assert (reader.calls["log_offsets"], reader.calls["settings"]) == (2 * 3, 1)
    assert cluster.clock.monotonic() - began_s < MEASURED_S + 1.0


async def test_the_rate_of_a_compacted_topic_is_unknown() -> None:
    assert (await measured(orders(configs={"cleanup.policy": "compact"}))).inbound == {}


async def test_the_rate_is_unknown_without_the_size() -> None:
    cluster = orders()
    cluster.do(layout.Deny("log_dirs"))

    assert (await measured(cluster)).inbound == {}


class Watched(CountingReader):
    """A reader that triggers an event before the second read of the log ends of broker 1."""

    def __init__(self, cluster: SimulatedCluster, happens: Callable[[], None]) -> None:
        super().__init__(cluster.reader())
        self._happens = happens

    async def log_offsets(
        self,
        broker: int,
        *,
        ends: Collection[TopicPartition],
        starts: Collection[TopicPartition] = (),
    ) -> OffsetsAnswer:
        if broker == 1 and not starts:
            self._happens()
        return await super().log_offsets(broker, ends=ends, starts=starts)


def time_out() -> None:
    raise TimedOut("reading log ends", where="broker 1")


async def test_a_leader_that_does_not_answer_leaves_only_its_own_partitions_unmeasured() -> None:
    cluster = orders()

    seen = await take_snapshot(Watched(cluster, time_out), PLAN, cluster.clock)

    assert set(seen.inbound) == {tp("orders-1")}
    assert [(f.operation, f.broker) for f in seen.failures] == [(Operation.LOG_ENDS, 1)]


async def test_a_leader_that_dies_meanwhile_leaves_the_rate_unknown() -> None:
    cluster = orders()

    seen = await take_snapshot(
        Watched(cluster, lambda: cluster.do(layout.Kill(1))), PLAN, cluster.clock
    )

    assert set(seen.inbound) == {tp("orders-1")}


async def test_throttle_rates_of_brokers_are_read_with_their_source() -> None:
    cluster = orders()
    cluster.do(throttle("follower", 4, 5_000_000))
    wait(cluster, 1.0)

    seen = await measured(cluster)

    assert seen.rates[4][FOLLOWER_RATE].source is ConfigSource.OWN
    assert seen.rates[4][FOLLOWER_RATE].value == "5000000"
    assert set(seen.rates) == {1, 2, 3, 4}
