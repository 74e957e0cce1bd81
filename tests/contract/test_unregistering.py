"""Brokers that are unregistered: what vanishes with them, and what partitions keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.simulated import events
from support.contract.simulated_world import SimulatedWorld
from support.contract.world import World, alter, state, until
from support.kafka.outage import Outage

BROKER = 4
Kill = Callable[[int], None]


@pytest.fixture
async def kill(world: World, request: pytest.FixtureRequest) -> AsyncIterator[Kill]:
    """Kills a broker like a power loss; a real one is up again after the test."""
    if isinstance(world, SimulatedWorld):
        cluster = world.cluster
        yield lambda broker: cluster.do(events.Kill(broker))
        return
    outage = Outage(request.getfixturevalue("lab"))
    yield outage.kill
    await asyncio.to_thread(outage.mend)


async def gone(world: World, broker: int) -> None:
    """Wait until a broker is no longer among the registered ones."""

    async def unknown() -> bool:
        return broker not in (await world.reader.describe_cluster()).brokers

    await until(unknown, clock=world.clock)


async def down(world: World, broker: int) -> None:
    """Wait until a broker is fenced."""

    async def fenced() -> bool:
        return broker not in (await world.reader.describe_cluster()).online

    await until(fenced, clock=world.clock)


async def test_an_unregistered_broker_vanishes_and_partitions_go_on_naming_it(
    world: World, kill: Kill, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1, 2, BROKER], [1, 2, 3]])
    kill(BROKER)
    await down(world, BROKER)

    assert await world.writer.unregister_broker(BROKER) == WriteResult(Verdict.ACCEPTED)

    await gone(world, BROKER)
    left = await state(world, TopicPartition(topic_name, 0))
    assert (left.replicas, set(left.isr), left.offline) == ((1, 2, BROKER), {1, 2}, (BROKER,))
    again = await world.writer.unregister_broker(BROKER)
    assert (again.verdict, again.code) == (Verdict.REFUSED, "BROKER_ID_NOT_REGISTERED")
    onto_it = await alter(world, TopicPartition(topic_name, 1), (1, 2, BROKER))
    assert (onto_it.verdict, onto_it.code) == (Verdict.REFUSED, "INVALID_REPLICA_ASSIGNMENT")


async def test_a_broker_that_is_not_registered_cannot_be_unregistered(world: World) -> None:
    result = await world.writer.unregister_broker(99)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "BROKER_ID_NOT_REGISTERED")
