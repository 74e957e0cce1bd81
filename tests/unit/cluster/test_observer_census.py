"""Counts over the whole cluster, and the partitions that are not well anywhere in it."""

from __future__ import annotations

import asyncio

import pytest

from ktui.cluster.errors import Operation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.simulated import events
from support.simulated.polled_cluster import EVERYONE, ORDERS, a_topic, looking


async def test_a_census_that_failed_is_no_longer_told_once_nobody_wants_one() -> None:
    interest = Interest(census=True)
    async with looking() as look:
        await look.do(events.ChangeController())  # the list waits for it, and meanwhile all die
        first = asyncio.create_task(look.observer.poll(interest))
        await look.clock.advance(0.5)
        await look.do(*map(events.Kill, EVERYONE), then_wait_s=1.0)
        await first
        await look.do(*map(events.Start, EVERYONE), then_wait_s=15.0)
        told = [failure.operation for failure in (await look.poll(interest)).failures]
        assert Operation.CENSUS in told

        assert (await look.poll()).failures == ()


async def test_a_new_census_is_taken_as_soon_as_a_broker_goes_or_comes() -> None:
    interest = Interest(unhealthy=True)
    async with looking(a_topic("orders", (1, 2, 3))) as look:
        await look.poll(interest)
        await look.poll(interest)
        await look.do(events.Shutdown(3), then_wait_s=3.0)

        await look.poll(interest)
        observation = await look.poll(interest)

        assert look.reader.calls["scan_topics"] == 2
        assert observation.partitions.keys() == {ORDERS}


async def test_a_census_under_way_is_not_a_failure() -> None:
    async with looking() as look:
        observation = await look.poll(Interest(census=True))

        assert observation.census is None
        assert observation.failures == ()


async def test_unhealthy_partitions_are_found_by_a_census_and_then_looked_at_every_poll() -> None:
    interest = Interest(unhealthy=True)
    topics = a_topic("orders", (1, 2, 3), (1, 2, 4)), a_topic("audit", (5,))
    async with looking(*topics) as look:
        await look.do(events.Kill(4), events.Kill(5), then_wait_s=10.0)

        await look.poll(interest)
        observation = await look.poll(interest)

        sick, dead = TopicPartition("orders", 1), TopicPartition("audit", 0)
        assert observation.partitions.keys() == {sick, dead}
        assert observation.partitions[dead].leader is None
        assert observation.census is not None
        assert observation.census.partitions == 3
        assert observation.census.leaders == {1: 2}
        assert observation.census.replicas == {1: 2, 2: 2, 3: 1, 4: 1, 5: 1}
        assert look.reader.calls["scan_topics"] == 1


async def test_of_very_many_unhealthy_partitions_the_worst_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.cluster.observer.MOST_UNHEALTHY", 2)
    topics = (
        a_topic("audit", *[(1, 2, 4)] * 5),
        a_topic("orders", (4, 5, 1)),
        a_topic("zebra", (5,)),
    )
    async with looking(*topics) as look:
        await look.do(events.Kill(4), events.Kill(5), then_wait_s=10.0)

        await look.poll(Interest(unhealthy=True))
        observation = await look.poll(Interest(unhealthy=True))

        assert observation.partitions.keys() == {
            TopicPartition("zebra", 0), TopicPartition("orders", 0)
        }  # fmt: skip
