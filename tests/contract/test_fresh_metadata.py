"""A fresh description of topics includes every earlier acknowledged change, from any broker."""

from __future__ import annotations

import itertools

import pytest

from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict
from support.contract.world import World, alter, hold_back, listed

MANY = 50


@pytest.fixture
async def tp(world: World, topic_name: str) -> TopicPartition:
    """A partition on brokers 2, 1 and 3."""
    await world.create_topic(topic_name, [[2, 1, 3]])
    return TopicPartition(topic_name, 0)


async def altered(world: World, tp: TopicPartition, replicas: tuple[int, ...] | None) -> None:
    result = await alter(world, tp, replicas, factor=True)
    assert result.verdict is Verdict.ACCEPTED, result


async def fresh(world: World, tp: TopicPartition) -> PartitionState:
    return (await world.reader.describe_topics([tp.topic], fresh=True)).partitions[tp]


async def test_each_of_many_reorders_is_seen_at_once(world: World, tp: TopicPartition) -> None:
    orders = itertools.cycle([(3, 2, 1), (1, 3, 2), (2, 1, 3)])
    for order in itertools.islice(orders, MANY):
        await altered(world, tp, order)

        assert (await fresh(world, tp)).replicas == order


async def test_replicas_dropped_and_added_are_seen_at_once(
    world: World, tp: TopicPartition
) -> None:
    for _ in range(MANY // 5):
        await altered(world, tp, (2, 1))
        after = await fresh(world, tp)
        assert (after.replicas, {*after.isr}) == ((2, 1), {1, 2})

        await altered(world, tp, (2, 1, 3))
        assert (await fresh(world, tp)).replicas == (2, 1, 3)
        while await listed(world, tp):
            await world.clock.sleep(0.02)

        after = await fresh(world, tp)
        assert (after.replicas, {*after.isr}) == ((2, 1, 3), {1, 2, 3})


async def test_an_elected_leader_is_seen_at_once(world: World, tp: TopicPartition) -> None:
    orders = itertools.cycle([(3, 2, 1), (1, 3, 2), (2, 1, 3)])
    for order in itertools.islice(orders, MANY // 2):
        before = await fresh(world, tp)
        await altered(world, tp, order)
        elected = (await world.writer.elect_preferred_leaders([tp]))[tp]
        assert elected.verdict is Verdict.ACCEPTED, elected

        after = await fresh(world, tp)

        assert after.leader == order[0]
        assert (after.leader_epoch or 0) == (before.leader_epoch or 0) + 1


async def test_a_cancel_is_seen_at_once(world: World, tp: TopicPartition) -> None:
    await world.append(tp, 4_000, 1_000)
    await hold_back(world, tp, 4)
    for _ in range(MANY // 5):
        await altered(world, tp, (4, 1, 3))
        assert (await fresh(world, tp)).replicas == (4, 1, 3, 2)

        await altered(world, tp, None)

        assert {*(await fresh(world, tp)).replicas} == {1, 2, 3}
        await altered(world, tp, (2, 1, 3))


async def test_topics_are_present_once_created_and_absent_once_deleted(
    world: World, topic_name: str
) -> None:
    for number in range(MANY // 5):
        name = f"{topic_name}-{number}"
        await world.make_topic(name, [[1, 2], [2, 3]])
        made = await world.reader.describe_topics([name], fresh=True)
        await world.delete_topic(name)

        deleted = await world.reader.describe_topics([name], fresh=True)

        assert len(made.partitions) == 2
        assert not deleted.partitions
        assert deleted.absent == {name}


async def test_a_fresh_poll_misses_no_acknowledged_change(world: World, tp: TopicPartition) -> None:
    observer = Observer(world.reader, world.clock)
    interest = Interest(partitions=frozenset({tp}), fresh=True)
    orders = itertools.cycle([(3, 2, 1), (1, 3, 2), (2, 1, 3)])
    for order in itertools.islice(orders, MANY // 2):
        await altered(world, tp, order)

        observation = await observer.poll(interest)

        assert observation.fresh
        assert observation.partitions[tp].replicas == order
    await observer.aclose()


async def test_a_fresh_scan_has_every_topic_that_was_created_before(
    world: World, topic_name: str
) -> None:
    for n in range(MANY // 5):
        await world.make_topic(f"{topic_name}-{n}", [[2, 1, 3]])

        seen = {
            tp.topic
            async for page in world.reader.scan_topics(fresh=True)
            for tp in page.partitions
        }

        assert f"{topic_name}-{n}" in seen
