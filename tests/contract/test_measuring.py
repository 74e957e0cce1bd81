"""Log ends, log starts and bytes: the measurements behind progress."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.partition import TopicPartition
from support.contract.world import World, alter, hold_back, until


@pytest.fixture
async def tp(world: World, topic_name: str) -> TopicPartition:
    """A partition on brokers 2, 1 and 3 that holds 4,000 messages."""
    await world.create_topic(topic_name, [[2, 1, 3], [1, 2, 3]])
    tp = TopicPartition(topic_name, 0)
    await world.append(tp, 4_000, 1_000)
    return tp


async def test_a_leader_reports_its_log_end_and_log_start(world: World, tp: TopicPartition) -> None:
    answer = await world.reader.log_offsets(2, ends=[tp], starts=[tp])

    assert answer.ends == {tp: 4_000}
    assert answer.starts == {tp: 0}
    assert answer.errors == {}


async def test_a_follower_reports_its_own_log_end_while_it_catches_up(
    world: World, tp: TopicPartition
) -> None:
    await hold_back(world, tp, 4)
    await alter(world, tp, (4, 1, 3))

    async def behind() -> int | None:
        return (await world.reader.log_offsets(4, ends=[tp])).ends.get(tp)

    follower = await until(behind, clock=world.clock)
    leader = (await world.reader.log_offsets(2, ends=[tp])).ends[tp]

    assert 0 < follower < leader == 4_000


async def test_an_in_sync_follower_has_the_log_end_of_its_leader(
    world: World, tp: TopicPartition
) -> None:
    async def caught_up() -> bool:
        return (await world.reader.log_offsets(1, ends=[tp])).ends == {tp: 4_000}

    assert await until(caught_up, clock=world.clock)


async def test_partitions_a_broker_cannot_answer_for_are_named_beside_the_answers(
    world: World, tp: TopicPartition
) -> None:
    absent = TopicPartition(f"{tp.topic}-not-there", 0)

    here = await world.reader.log_offsets(2, ends=[tp, absent])
    elsewhere = await world.reader.log_offsets(5, ends=[tp])

    assert here.ends == {tp: 4_000}
    assert here.errors == {absent: "UNKNOWN_TOPIC_OR_PARTITION"}
    assert elsewhere.ends == {}
    assert elsewhere.errors == {tp: "NOT_LEADER_OR_FOLLOWER"}


async def test_a_log_dir_reports_its_free_space_and_the_sizes_of_requested_partitions(
    world: World, tp: TopicPartition
) -> None:
    async def sized() -> bool:
        return (await world.reader.log_dirs(1, [tp])).sizes.get(tp, 0) >= 4_000_000

    await until(sized, clock=world.clock)
    answer = await world.reader.log_dirs(1, [tp])

    assert answer.sizes.keys() == {tp}
    assert 4_000_000 <= answer.sizes[tp] < 8_000_000
    (only,) = answer.log_dirs
    assert (only.broker, only.error, only.cordoned) == (1, None, False)
    assert only.total_bytes is not None
    assert only.usable_bytes is not None
    assert 0 < only.usable_bytes < only.total_bytes


async def test_log_dirs_can_be_read_without_partitions(world: World, tp: TopicPartition) -> None:
    answer = await world.reader.log_dirs(2, [])

    assert len(answer.log_dirs) == 1
    assert answer.sizes == {}
    assert (await world.reader.log_dirs(5, [tp])).sizes == {}


async def test_an_unknown_broker_is_unreachable(world: World) -> None:
    with pytest.raises(Unreachable, match="broker 77"):
        await world.reader.log_dirs(77, [])
