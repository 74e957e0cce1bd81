"""Reassignments (KIP-455), elections (KIP-460) and added partitions (KIP-195)."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import Brokers, PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
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


MESSAGES, SIZE = 4_000, 1_000
"""More than one fetch brings, so that a held-back replica stays behind."""


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
