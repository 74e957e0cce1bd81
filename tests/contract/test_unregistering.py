"""Brokers that are unregistered: what vanishes with them, and what partitions keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict, WriteResult
from ktui.cluster.settings import FOLLOWER_RATE, LEADER_RATE, broker_resource
from ktui.simulated import layout
from support.contract.world import SimulatedWorld, World, alter, state, until
from support.kafka.labs import Outage

BROKER = 4
Kill = Callable[[int], None]


class Power(NamedTuple):
    """Kills a broker like a power loss, and starts all that were killed."""

    off: Kill
    on: Callable[[], None]


@pytest.fixture
async def power(world: World, request: pytest.FixtureRequest) -> AsyncIterator[Power]:
    """The power of brokers; real ones are up again after the test."""
    if isinstance(world, SimulatedWorld):
        cluster = world.cluster
        yield Power(
            lambda broker: cluster.do(layout.Kill(broker)),
            lambda: cluster.do(layout.Start(BROKER)),
        )
        return
    outage = Outage(request.getfixturevalue("lab"))
    yield Power(outage.kill, outage.mend)
    await asyncio.to_thread(outage.mend)


@pytest.fixture
def kill(power: Power) -> Kill:
    return power.off


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


async def test_a_controller_deletes_settings_of_a_broker_that_is_down_until_it_is_unregistered(
    world: World, power: Power
) -> None:
    mine = broker_resource(BROKER)
    change = ConfigChange(mine, FOLLOWER_RATE, ConfigOp.SET, "123456")
    assert (await world.writer.alter_configs([change]))[mine].verdict is Verdict.ACCEPTED
    power.off(BROKER)
    await down(world, BROKER)

    deleted = await world.writer.delete_broker_settings(BROKER, [FOLLOWER_RATE, LEADER_RATE])
    assert deleted == WriteResult(Verdict.ACCEPTED)

    assert await world.writer.unregister_broker(BROKER) == WriteResult(Verdict.ACCEPTED)
    refused = await world.writer.delete_broker_settings(BROKER, [FOLLOWER_RATE])
    assert (refused.verdict, refused.code) == (Verdict.REFUSED, "BROKER_ID_NOT_REGISTERED")

    await asyncio.to_thread(power.on)
    await until(partial(_has_no_rate, world), clock=world.clock)


async def _has_no_rate(world: World) -> bool:
    """Whether the broker is up, and reports no rate of its own."""
    mine = broker_resource(BROKER)
    read = await world.reader.settings([mine], [FOLLOWER_RATE])
    return mine in read.settings and FOLLOWER_RATE not in read.settings[mine]
