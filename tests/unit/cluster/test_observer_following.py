"""A partition that has left the list is still polled for a while."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.figures import CLOSELY_S, FOLLOW_S, MOST, SELDOM_S
from ktui.cluster.partition import TopicPartition
from ktui.simulated import layout
from support.simulated.polled_cluster import (
    EVERYONE,
    MESSAGES,
    ORDERS,
    a_topic,
    looking,
    looking_at_a_move,
)


async def test_a_partition_that_left_the_list_is_polled_closely_for_a_while() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.clock.advance(MESSAGES / 100)

        for _ in range(int(CLOSELY_S)):
            observation = await watcher.poll()
            assert observation.partitions[ORDERS].replicas == (4, 1, 3)
            assert not observation.partitions[ORDERS].reassigning


async def test_an_ended_partition_is_polled_seldom_until_its_row_disappears() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.do(layout.Alter({ORDERS: None}))
        await watcher.poll()
        await watcher.clock.advance(CLOSELY_S)

        seen = [ORDERS in (await watcher.poll()).partitions for _ in range(20)]
        assert sum(seen) == 20 / SELDOM_S

        await watcher.clock.advance(FOLLOW_S)
        assert (await watcher.poll()).partitions == {}


async def test_only_so_many_ended_partitions_are_still_polled() -> None:
    names = [TopicPartition("orders", number) for number in range(MOST + 10)]
    async with looking(a_topic("orders", *[(2, 1, 3)] * len(names))) as watcher:
        await watcher.do(layout.Alter(dict.fromkeys(names, (4, 1, 3))))
        assert len((await watcher.poll()).partitions) == MOST + 10
        await watcher.do(layout.Alter(dict.fromkeys(names, None)))

        assert len((await watcher.poll()).partitions) == MOST


async def test_a_move_that_ended_during_an_outage_is_still_polled() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.do(*map(layout.Kill, EVERYONE))
        with pytest.raises(Unreachable):
            await watcher.poll()
        await watcher.clock.advance(10 * CLOSELY_S)
        await watcher.do(*map(layout.Start, EVERYONE), then_wait_s=10.0)
        await watcher.do(layout.Alter({ORDERS: None}))

        observation = await watcher.poll()

        assert ORDERS in observation.partitions
        assert not observation.reassigning
