"""Brokers report the groups and transactional ids that they coordinate, each at one broker."""

from __future__ import annotations

import pytest

from ktui.cluster.coordination import CoordinatorKind, coordinating_partition
from support.contract.world import World, until


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


@pytest.mark.parametrize("kind", CoordinatorKind)
async def test_the_leader_of_its_partition_alone_reports_an_id(
    world: World, topic_name: str, kind: CoordinatorKind
) -> None:
    await world.use_coordinator(kind, topic_name)

    async def reported() -> bool:
        return bool(await coordinators(world, kind, topic_name))

    await until(reported, clock=world.clock)

    ((broker, leader),) = await coordinators(world, kind, topic_name)
    assert broker == leader
    assert (await world.reader.coordinated_ids(broker, kind)).lacks == ""
