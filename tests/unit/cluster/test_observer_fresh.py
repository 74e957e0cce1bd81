"""A poll that is to know all that was decided before it."""

from __future__ import annotations

import asyncio

from ktui.cluster.fresh_read import FRESH_AGAIN_S
from ktui.cluster.observer import Interest
from ktui.simulated import events
from support.simulated.polled_cluster import ORDERS, a_topic, looking

FRESH = Interest(partitions=frozenset({ORDERS}), fresh=True)


async def test_a_fresh_poll_knows_what_was_decided_before_it() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        await look.do(events.Alter({ORDERS: (3, 1, 2)}))

        observation = await look.poll(FRESH)

        assert observation.partitions[ORDERS].replicas == (3, 1, 2)
        assert observation.fresh


async def test_any_other_poll_does_not_claim_to() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        await look.do(events.Alter({ORDERS: (3, 1, 2)}))

        observation = await look.poll(Interest(partitions=frozenset({ORDERS})))

        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
        assert not observation.fresh


async def test_what_cannot_be_known_to_be_fresh_is_still_seen_and_not_asked_for_at_every_poll() -> (
    None
):
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        await look.do(events.Deny("describe_quorum"))
        first, _ = await look.poll(FRESH), await look.poll(FRESH)

        assert not first.fresh
        assert first.partitions.keys() == {ORDERS}
        assert look.reader.calls["describe_topics"] == 3

        await look.do(events.Allow("describe_quorum"), then_wait_s=FRESH_AGAIN_S)
        assert (await look.poll(FRESH)).fresh


async def test_brokers_that_are_far_behind_the_controller_are_waited_for_in_vain() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as look:
        look.cluster.metadata.lag_s = 20.0
        await look.do(events.Alter({ORDERS: (3, 1, 2)}))
        polling = asyncio.create_task(look.observer.poll(FRESH))
        await look.clock.advance(10.0)

        observation = await polling

        assert not observation.fresh
        assert observation.partitions[ORDERS].replicas == (2, 1, 3)
