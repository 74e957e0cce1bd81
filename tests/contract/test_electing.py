"""Preferred leader elections (KIP-460)."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from support.contract.world import World, alter, hold_back, settled, state, until


@pytest.fixture
async def tp(world: World, topic_name: str) -> TopicPartition:
    """A partition on brokers 2, 1 and 3 with data to copy."""
    await world.create_topic(topic_name, [[2, 1, 3]])
    tp = TopicPartition(topic_name, 0)
    await world.append(tp, 4_000, 1_000)
    return tp


async def elect(world: World, tp: TopicPartition) -> WriteResult:
    return (await world.writer.elect_preferred_leaders([tp]))[tp]


async def test_a_new_replica_order_applies_at_once_but_does_not_move_the_leader(
    world: World, tp: TopicPartition
) -> None:
    await alter(world, tp, (3, 1, 2))

    now = await settled(world, tp, (3, 1, 2))

    assert now.leader == 2


async def test_an_election_makes_the_first_replica_leader_with_a_new_epoch(
    world: World, tp: TopicPartition
) -> None:
    before = await state(world, tp)
    await alter(world, tp, (3, 1, 2))
    await settled(world, tp, (3, 1, 2))

    assert await elect(world, tp) == WriteResult(Verdict.ACCEPTED)

    async def leads() -> PartitionState | None:
        seen = await state(world, tp)
        return seen if seen.leader == 3 else None

    now = await until(leads, clock=world.clock)
    assert before.leader_epoch is not None
    assert now.leader_epoch is not None
    assert now.leader_epoch > before.leader_epoch


async def test_an_unneeded_election_counts_as_accepted(world: World, tp: TopicPartition) -> None:
    result = await elect(world, tp)

    assert (result.verdict, result.code) == (Verdict.ACCEPTED, "ELECTION_NOT_NEEDED")


async def test_a_preferred_leader_outside_the_isr_cannot_be_elected(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 2, 1, 3), factor=True)

    result = await elect(world, tp)

    assert (result.verdict, result.code) == (
        Verdict.REFUSED,
        "PREFERRED_LEADER_NOT_AVAILABLE",
    )


async def test_each_partition_of_an_election_has_its_own_answer(
    world: World, tp: TopicPartition
) -> None:
    absent = TopicPartition(f"{tp.topic}-not-there", 3)

    results = await world.writer.elect_preferred_leaders([tp, absent])

    assert results[tp].verdict is Verdict.ACCEPTED
    assert (results[absent].verdict, results[absent].code) == (
        Verdict.REFUSED,
        "UNKNOWN_TOPIC_OR_PARTITION",
    )
