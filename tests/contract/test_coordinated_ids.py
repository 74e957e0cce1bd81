"""Brokers report the groups and transactional ids that they coordinate, each at one broker."""

from __future__ import annotations

import pytest

from ktui.cluster.coordination import (
    SHARE,
    SHARE_GROUPS_TOPIC,
    CoordinatedId,
    CoordinatorKind,
    coordinating_partition,
    java_hash,
    share_state_key,
)
from ktui.cluster.partition import TopicPartition
from support.contract.world import World, until

NO_SHARE_GROUPS = ("3.9", "4.0", "4.1")


async def coordinators(world: World, kind: CoordinatorKind, name: str) -> list[tuple[int, int]]:
    """Return the brokers that report an id, each with the leader of the partition that keeps it."""
    known = (await world.reader.describe_topics([kind.topic])).partitions
    found = []
    for broker in range(1, 6):
        answer = await world.reader.coordinated_ids(broker, kind)
        for each in answer.ids:
            if each.name == name:
                number = coordinating_partition(each, len(known))
                leaders = {tp.partition: state.leader or 0 for tp, state in known.items()}
                found.append((broker, leaders[number]))
    return found


@pytest.mark.parametrize("coordinated", [CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION])
async def test_the_leader_of_its_partition_alone_reports_an_id(
    world: World, topic_name: str, coordinated: CoordinatorKind
) -> None:
    await world.use_coordinator(coordinated, topic_name)

    async def reported() -> bool:
        return bool(await coordinators(world, coordinated, topic_name))

    await until(reported, clock=world.clock)

    ((broker, leader),) = await coordinators(world, coordinated, topic_name)
    assert broker == leader
    assert (await world.reader.coordinated_ids(broker, coordinated)).lacks == ""


async def state_written(world: World) -> dict[int, int]:
    """Return the log ends of the topic that keeps share groups' state, by partition."""
    known = (await world.reader.describe_topics([SHARE_GROUPS_TOPIC])).partitions
    ends = {}
    for tp, state in known.items():
        answer = await world.reader.log_offsets(state.leader or 0, ends=[tp])
        ends[tp.partition] = answer.ends[tp]
    return ends


async def test_a_share_group_is_reported_by_its_coordinator_with_the_place_of_its_state(
    world: World, topic_name: str, version: str, *, is_real: bool
) -> None:
    if version in NO_SHARE_GROUPS:
        pytest.skip("share groups are off by default before Kafka 4.2")
    await world.create_topic(topic_name, [[1, 2]])
    before = await state_written(world)
    await world.use_coordinator(CoordinatorKind.SHARE_GROUP, topic_name)

    async def reported() -> bool:
        for broker in range(1, 6):
            answer = await world.reader.coordinated_ids(broker, CoordinatorKind.SHARE_GROUP)
            found.update({one: broker for one in answer.ids if one.name == topic_name})
        return bool(found)

    found: dict[CoordinatedId, int] = {}
    await until(reported, clock=world.clock)

    tp = TopicPartition(topic_name, 0)
    topic_id = (await world.reader.describe_topics([topic_name])).partitions[tp].topic_id
    ((state, broker),) = found.items()
    assert state.hash == java_hash(share_state_key(topic_name, str(topic_id), 0))
    assert state.type == SHARE
    ((coordinator, leader),) = await coordinators(world, CoordinatorKind.GROUP, topic_name)
    assert broker == coordinator == leader
    if is_real:
        after = await state_written(world)
        grown = {number for number, end in after.items() if end > before.get(number, 0)}
        assert grown == {coordinating_partition(state, len(after))}
