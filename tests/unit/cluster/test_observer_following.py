"""A partition that has left the list is looked at for a while yet."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.following import CLOSELY_S, FOLLOW_S, MOST, SELDOM_S
from ktui.cluster.partition import TopicPartition
from ktui.simulated import events
from support.simulated.polled_cluster import (
    EVERYONE,
    MESSAGES,
    ORDERS,
    a_topic,
    looking,
    looking_at_a_move,
)


async def test_a_partition_that_left_the_list_is_looked_at_closely_for_a_while() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.clock.advance(MESSAGES / 100)

        for _ in range(int(CLOSELY_S)):
            observation = await look.poll()
            assert observation.partitions[ORDERS].replicas == (4, 1, 3)
            assert not observation.partitions[ORDERS].reassigning


async def test_and_then_now_and_then_for_as_long_as_its_row_is_shown() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.do(events.Alter({ORDERS: None}))
        await look.poll()
        await look.clock.advance(CLOSELY_S)

        seen = [ORDERS in (await look.poll()).partitions for _ in range(20)]
        assert sum(seen) == 20 / SELDOM_S

        await look.clock.advance(FOLLOW_S)
        assert (await look.poll()).partitions == {}


async def test_thousands_that_have_ended_are_not_worth_a_poll_of_their_own() -> None:
    names = [TopicPartition("orders", number) for number in range(MOST + 10)]
    async with looking(a_topic("orders", *[(2, 1, 3)] * len(names))) as look:
        await look.do(events.Alter(dict.fromkeys(names, (4, 1, 3))))
        assert len((await look.poll()).partitions) == MOST + 10
        await look.do(events.Alter(dict.fromkeys(names, None)))

        assert len((await look.poll()).partitions) == MOST


async def test_what_ended_while_the_cluster_was_lost_is_still_looked_at() -> None:
    async with looking_at_a_move() as look:
        await look.poll()
        await look.do(*map(events.Kill, EVERYONE))
        with pytest.raises(Unreachable):
            await look.poll()
        await look.clock.advance(10 * CLOSELY_S)
        await look.do(*map(events.Start, EVERYONE), then_wait_s=10.0)
        await look.do(events.Alter({ORDERS: None}))

        observation = await look.poll()

        assert ORDERS in observation.partitions
        assert not observation.reassigning
