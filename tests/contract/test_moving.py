"""Reassignments: how they are listed, cancelled, refused, and what they leave behind (KIP-455)."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import Verdict
from support.contract.world import World, alter, hold_back, let_go, listed, settled, state, until

MESSAGES, SIZE = 4_000, 1_000
"""More than one fetch brings, so that a held-back replica stays behind."""


@pytest.fixture
async def tp(world: World, topic_name: str) -> TopicPartition:
    """A partition on brokers 2, 1 and 3 with data to copy."""
    await world.create_topic(topic_name, [[2, 1, 3]])
    tp = TopicPartition(topic_name, 0)
    await world.append(tp, MESSAGES, SIZE)
    return tp


async def test_a_move_is_listed_with_its_target_in_order_then_the_removed_replicas(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    assert (await alter(world, tp, (4, 5, 3))).verdict is Verdict.ACCEPTED

    moving = await listed(world, tp)

    assert moving == Reassignment(replicas=(4, 5, 3, 1, 2), adding=(4, 5), removing=(1, 2))


async def test_metadata_shows_the_listed_replicas_with_the_old_ones_in_sync(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 5, 3))

    async def seen() -> bool:
        return (await state(world, tp)).replicas == (4, 5, 3, 1, 2)

    await until(seen, clock=world.clock)
    now = await state(world, tp)
    assert {1, 2, 3} <= set(now.isr)
    assert 4 not in now.isr
    assert now.leader == 2
    assert (now.adding, now.removing) == ((), ())


async def test_a_move_ends_at_its_target_once_released(world: World, tp: TopicPartition) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 5, 3))
    await let_go(world, tp)

    done = await settled(world, tp, (4, 5, 3))

    assert done.leader in {4, 5, 3}


async def test_a_cancel_ends_the_move_at_once_and_loses_the_order(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 5, 1))

    assert (await alter(world, tp, None)).verdict is Verdict.ACCEPTED

    assert await listed(world, tp) is None
    await settled(world, tp, (1, 2, 3))


async def test_a_cancel_of_a_partition_at_rest_is_refused(world: World, tp: TopicPartition) -> None:
    result = await alter(world, tp, None)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "NO_REASSIGNMENT_IN_PROGRESS")


@pytest.mark.parametrize(
    ("replicas", "said"), [((2, 1, 99), "99"), ((2, 1, 1), "more than once"), ((), "")]
)
async def test_an_impossible_target_is_refused_in_the_controllers_words(
    world: World, tp: TopicPartition, replicas: tuple[int, ...], said: str
) -> None:
    result = await alter(world, tp, replicas, factor=True)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REPLICA_ASSIGNMENT")
    assert result.message
    assert said in result.message


async def test_each_partition_of_a_request_has_its_own_answer(
    world: World, tp: TopicPartition
) -> None:
    no_partition = TopicPartition(tp.topic, 77)
    no_topic = TopicPartition(f"{tp.topic}-not-there", 0)

    results = await world.writer.alter_reassignments(
        {tp: (2, 1, 4), no_partition: (1, 2, 3), no_topic: None},
        allow_replication_factor_change=False,
    )

    assert results[tp].verdict is Verdict.ACCEPTED
    for absent in (no_partition, no_topic):
        assert results[absent].verdict is Verdict.REFUSED
        assert results[absent].code == "UNKNOWN_TOPIC_OR_PARTITION"
        assert results[absent].message
    await settled(world, tp, (2, 1, 4))


async def test_a_change_of_replication_factor_is_refused_unless_allowed(
    world: World, tp: TopicPartition
) -> None:
    result = await alter(world, tp, (2, 1, 3, 4))

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REPLICATION_FACTOR")
    assert "from 3 to 4" in result.message
    assert await listed(world, tp) is None

    assert (await alter(world, tp, (2, 1, 3, 4), factor=True)).verdict is Verdict.ACCEPTED
    await settled(world, tp, (2, 1, 3, 4))


async def test_the_replication_factor_of_a_moving_partition_is_that_of_its_target(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 1, 3))

    assert (await alter(world, tp, (4, 1, 3))).verdict is Verdict.ACCEPTED
    assert (await alter(world, tp, (4, 1, 3, 2))).code == "INVALID_REPLICATION_FACTOR"


async def test_repeating_the_same_target_changes_nothing(world: World, tp: TopicPartition) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 1, 3))
    before = await listed(world, tp)

    assert (await alter(world, tp, (4, 1, 3))).verdict is Verdict.ACCEPTED

    assert await listed(world, tp) == before


async def test_a_target_that_keeps_a_replica_being_removed_is_accepted_without_effect(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 1, 3))
    before = await listed(world, tp)

    assert (await alter(world, tp, (4, 1, 3, 2), factor=True)).verdict is Verdict.ACCEPTED

    assert await listed(world, tp) == before


async def test_retargeting_a_moving_partition_loses_its_original_replicas(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await hold_back(world, tp, 5)
    await alter(world, tp, (4, 1, 3))
    await alter(world, tp, (4, 5, 1))

    await alter(world, tp, None)

    await settled(world, tp, (4, 1, 2, 3))


async def test_many_partitions_are_moved_and_cancelled_in_one_call(
    world: World, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1]] * 1_200)
    partitions = [TopicPartition(topic_name, p) for p in range(1_200)]

    results = await world.writer.alter_reassignments(
        dict.fromkeys(partitions, (2,)), allow_replication_factor_change=False
    )

    assert results.keys() == set(partitions)
    assert {r.verdict for r in results.values()} == {Verdict.ACCEPTED}

    async def all_there() -> bool:
        answer = await world.reader.describe_topics([topic_name])
        return all(answer.partitions[tp].replicas == (2,) for tp in partitions)

    await until(all_there, clock=world.clock)
    cancelled = await world.writer.alter_reassignments(
        dict.fromkeys(partitions), allow_replication_factor_change=False
    )
    assert {r.code for r in cancelled.values()} == {"NO_REASSIGNMENT_IN_PROGRESS"}
