"""A poll that must include every earlier decision."""

from __future__ import annotations

import asyncio

from ktui.cluster.asking import FRESH_AGAIN_S
from ktui.cluster.observer import Interest
from ktui.simulated import layout
from support.simulated.polled_cluster import ORDERS, a_topic, looking

FRESH = Interest(partitions=frozenset({ORDERS}), fresh=True)


async def test_a_fresh_poll_includes_every_earlier_decision() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Alter({ORDERS: (3, 1, 2)}))

        observation = await watcher.poll(FRESH)

        assert observation.partitions[ORDERS].replicas == (3, 1, 2)
        assert observation.fresh


async def test_an_ordinary_poll_does_not_claim_to_be_fresh() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Alter({ORDERS: (3, 1, 2)}))

        observation = await watcher.poll(Interest(partitions=frozenset({ORDERS})))

        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
        assert not observation.fresh


async def test_a_poll_of_unprovable_freshness_is_not_fresh_and_not_retried_every_time() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Deny("describe_quorum"))
        first, _ = await watcher.poll(FRESH), await watcher.poll(FRESH)

        assert not first.fresh
        assert first.partitions.keys() == {ORDERS}
        assert watcher.reader.calls["describe_topics"] == 3

        await watcher.do(layout.Allow("describe_quorum"), then_wait_s=FRESH_AGAIN_S)
        assert (await watcher.poll(FRESH)).fresh


async def test_brokers_far_behind_the_controller_make_a_fresh_poll_stale() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        watcher.cluster.metadata.lag_s = 20.0
        await watcher.do(layout.Alter({ORDERS: (3, 1, 2)}))
        polling = asyncio.create_task(watcher.observer.poll(FRESH))
        await watcher.clock.advance(10.0)

        observation = await polling

        assert not observation.fresh
        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
