"""The cost of a poll depends on what is in flight: the list, then only what it names."""

from __future__ import annotations

import asyncio

import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.partition import Replica
from ktui.simulated import layout
from support.simulated.polled_cluster import (
    EVERYONE,
    MESSAGES,
    ORDERS,
    a_topic,
    looking,
    looking_at_a_move,
)


async def test_a_quiet_cluster_costs_two_calls_however_many_partitions_it_holds() -> None:
    async with looking(a_topic("orders", *[(1, 2, 3)] * 100)) as watcher:
        observation = await watcher.poll()

        assert observation.partitions == {}
        assert watcher.reader.calls == {"describe_cluster": 1, "list_reassignments": 1}


async def test_a_moving_partition_combines_listed_replicas_with_the_isr_from_metadata() -> None:
    async with looking_at_a_move() as watcher:
        state = (await watcher.poll()).partitions[ORDERS]

        assert state.replicas == (4, 1, 3, 2)
        assert (state.adding, state.removing) == ((4,), (2,))
        assert (state.isr, state.leader) == ((2, 1, 3), 2)
        assert state.target == (4, 1, 3)
        assert set(state.original) == {2, 1, 3}


async def test_a_move_unknown_to_brokers_is_shown_as_the_controller_lists_it() -> None:
    async with looking(a_topic("orders", (2, 1, 3))) as watcher:
        await watcher.do(layout.Alter({ORDERS: (4, 1, 3)}))

        state = (await watcher.poll()).partitions[ORDERS]

        assert (state.replicas, state.adding) == ((4, 1, 3, 2), (4,))
        assert (state.isr, state.leader) == ((2, 1, 3), 2)


async def test_only_moving_topics_and_replicas_are_requested() -> None:
    async with looking_at_a_move(a_topic("quiet", *[(1, 2, 3)] * 5)) as watcher:
        observation = await watcher.poll()

        assert watcher.reader.described == [frozenset({"orders"})]
        requested = [(2, frozenset({ORDERS})), (4, frozenset({ORDERS}))]
        assert sorted(watcher.reader.asked_offsets) == requested
        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES
        assert observation.ends[Replica(ORDERS, 4)].value == 500
        assert observation.starts[ORDERS].value == 0


async def test_a_deleted_topic_is_absent() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.poll()
        await watcher.do(layout.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await watcher.poll()).absent == {ORDERS}


async def test_a_topic_without_describe_permission_still_shows_its_listed_move() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Deny("describe_topics"))

        observation = await watcher.poll()

        state = observation.partitions[ORDERS]
        assert (state.adding, state.described) == ((4,), False)
        assert state.out_of_sync == ()
        assert observation.absent == frozenset()
        assert watcher.reader.asked_offsets == []
        assert [(f.topic, f.denied) for f in observation.failures] == [("orders", True)]


async def test_a_lost_cluster_raises_an_error_and_the_next_poll_tries_again() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(*map(layout.Kill, EVERYONE))
        with pytest.raises(Unreachable):
            await watcher.poll()

        await watcher.do(*map(layout.Start, EVERYONE), then_wait_s=10.0)
        assert ORDERS in (await watcher.poll()).partitions


async def test_polls_never_overlap() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.ChangeController())  # the list waits until there is one
        polls = [asyncio.create_task(watcher.observer.poll()) for _ in range(5)]
        await watcher.clock.advance(5.0)

        assert {(await poll).partitions.keys() == {ORDERS} for poll in polls} == {True}
        assert watcher.reader.most_lists_at_once == 1
