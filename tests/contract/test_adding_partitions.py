"""Partitions added to a topic: how many, where, and what is refused (KIP-195)."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from support.contract.world import World, alter, hold_back, settled, until

PRESENT = [[2, 1, 3], [3, 2, 1]]


@pytest.fixture
async def topic(world: World, topic_name: str) -> str:
    """A topic of two partitions, with three replicas each."""
    await world.create_topic(topic_name, PRESENT)
    return topic_name


async def partitions(world: World, topic: str, count: int) -> list[PartitionState]:
    """Wait until a topic has so many partitions that are led; return them in order."""

    async def there() -> list[PartitionState] | None:
        found = (await world.reader.describe_topics([topic])).partitions
        led = sum(state.leader is not None for state in found.values())
        return [found[tp] for tp in sorted(found)] if led == count else None

    return await until(there, clock=world.clock)


async def test_added_partitions_have_as_many_replicas_and_the_others_stay(
    world: World, topic: str
) -> None:
    assert await world.writer.create_partitions(topic, 5) == WriteResult(Verdict.ACCEPTED)

    now = await partitions(world, topic, 5)

    assert [list(state.replicas) for state in now[:2]] == PRESENT
    for added in now[2:]:
        assert len(set(added.replicas)) == 3
        assert set(added.isr) == set(added.replicas) <= {1, 2, 3, 4, 5}
        assert added.leader == added.replicas[0]


async def test_added_partitions_are_placed_where_the_request_says(world: World, topic: str) -> None:
    asked: list[Brokers] = [(5, 4, 1), (4, 2, 5)]

    result = await world.writer.create_partitions(topic, 4, asked)

    assert result == WriteResult(Verdict.ACCEPTED)
    now = await partitions(world, topic, 4)
    assert [state.replicas for state in now[2:]] == asked
    assert [state.leader for state in now[2:]] == [5, 4]


@pytest.mark.parametrize(("count", "said"), [(2, "already has 2"), (1, "1 would not be")])
async def test_a_count_that_is_no_increase_is_refused(
    world: World, topic: str, count: int, said: str
) -> None:
    result = await world.writer.create_partitions(topic, count)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_PARTITIONS")
    assert said in result.message


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ([(1, 2, 3), (3, 4, 5)], "Attempted to add 1 additional partition(s)"),
        ([], "Attempted to add 1 additional partition(s)"),
        ([(1, 2)], "with 2 replica(s)"),
        ([(1, 2, 3, 4)], "previous partitions, which have 3 replica(s)"),
        ([(1, 2, 99)], "broker 99, but no such broker is registered"),
        ([(1, 2, 2)], "the broker 2 more than once"),
        ([()], "an empty replica list"),
    ],
)
async def test_an_impossible_assignment_of_added_partitions_is_refused(
    world: World, topic: str, assignment: list[Brokers], said: str
) -> None:
    result = await world.writer.create_partitions(topic, 3, assignment)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REPLICA_ASSIGNMENT")
    assert said in result.message


async def test_no_partitions_are_added_to_a_topic_that_does_not_exist(world: World) -> None:
    result = await world.writer.create_partitions("no-such-topic", 3)

    assert result == WriteResult(Verdict.REFUSED, "UNKNOWN_TOPIC_OR_PARTITION")


async def test_while_the_first_partition_moves_added_ones_get_its_longer_list_of_replicas(
    world: World, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    await world.append(tp, 4_000, 1_000)
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 1, 3))

    assert (await world.writer.create_partitions(topic, 3)).verdict is Verdict.ACCEPTED

    added = (await partitions(world, topic, 3))[2]
    assert len(added.replicas) == 4


async def test_one_partition_decides_how_many_replicas_added_ones_get_the_last_of_three(
    world: World, topic_name: str
) -> None:
    numbers = []
    for longer in range(3):
        tp = TopicPartition(f"{topic_name}-{longer}", longer)
        await world.create_topic(tp.topic, [[1], [1], [1]])
        await alter(world, tp, (1, 2), factor=True)
        await settled(world, tp, (1, 2))
        assert (await world.writer.create_partitions(tp.topic, 4)).verdict is Verdict.ACCEPTED
        numbers.append(len((await partitions(world, tp.topic, 4))[3].replicas))

    assert numbers == [1, 1, 2]


async def test_a_move_of_another_partition_does_not_lengthen_the_lists_of_added_ones(
    world: World, topic: str
) -> None:
    tp = TopicPartition(topic, 1)
    await world.append(tp, 4_000, 1_000)
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 1, 3))

    assert (await world.writer.create_partitions(topic, 3)).verdict is Verdict.ACCEPTED

    added = (await partitions(world, topic, 3))[2]
    assert len(added.replicas) == 3
