"""Counts over the whole cluster, and its unhealthy partitions."""

from __future__ import annotations

import asyncio

import pytest

from ktui.cluster.errors import Operation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout
from support.simulated.polled_cluster import EVERYONE, ORDERS, a_topic, looking


async def test_a_failed_census_is_no_longer_reported_once_it_is_not_requested() -> None:
    interest = Interest(census=True)
    async with looking() as watcher:
        await watcher.do(layout.ChangeController())  # the list waits for it, and meanwhile all die
        first = asyncio.create_task(watcher.observer.poll(interest))
        await watcher.clock.advance(0.5)
        await watcher.do(*map(layout.Kill, EVERYONE), then_wait_s=1.0)
        await first
        await watcher.do(*map(layout.Start, EVERYONE), then_wait_s=15.0)
        failed = [failure.operation for failure in (await watcher.poll(interest)).failures]
        assert Operation.CENSUS in failed

        assert (await watcher.poll()).failures == ()


async def test_a_change_of_live_brokers_triggers_a_new_census() -> None:
    interest = Interest(unhealthy=True)
    async with looking(a_topic("orders", (1, 2, 3))) as watcher:
        await watcher.poll(interest)
        await watcher.poll(interest)
        await watcher.do(layout.Shutdown(3), then_wait_s=3.0)

        await watcher.poll(interest)
        observation = await watcher.poll(interest)

        assert watcher.reader.calls["scan_topics"] == 2
        assert observation.partitions.keys() == {ORDERS}


async def test_a_census_under_way_is_not_a_failure() -> None:
    async with looking() as watcher:
        observation = await watcher.poll(Interest(census=True))

        assert observation.census is None
        assert observation.failures == ()


async def test_unhealthy_partitions_are_found_by_a_census_and_then_polled_every_time() -> None:
    interest = Interest(unhealthy=True)
    topics = a_topic("orders", (1, 2, 3), (1, 2, 4)), a_topic("audit", (5,))
    async with looking(*topics) as watcher:
        await watcher.do(layout.Kill(4), layout.Kill(5), then_wait_s=10.0)

        await watcher.poll(interest)
        observation = await watcher.poll(interest)

        sick, dead = TopicPartition("orders", 1), TopicPartition("audit", 0)
        assert observation.partitions.keys() == {sick, dead}
        assert observation.partitions[dead].leader is None
        assert observation.census is not None
        assert observation.census.partitions == 3
        assert observation.census.leaders == {1: 2}
        assert observation.census.replicas == {1: 2, 2: 2, 3: 1, 4: 1, 5: 1}
        assert watcher.reader.calls["scan_topics"] == 1


async def test_only_the_worst_of_very_many_unhealthy_partitions_are_polled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.cluster.observer.MOST_UNHEALTHY", 2)
    topics = (
        a_topic("audit", *[(1, 2, 4)] * 5),
        a_topic("orders", (4, 5, 1)),
        a_topic("zebra", (5,)),
    )
    async with looking(*topics) as watcher:
        await watcher.do(layout.Kill(4), layout.Kill(5), then_wait_s=10.0)

        await watcher.poll(Interest(unhealthy=True))
        observation = await watcher.poll(Interest(unhealthy=True))

        assert observation.partitions.keys() == {
            TopicPartition("zebra", 0), TopicPartition("orders", 0)
        }  # fmt: skip
