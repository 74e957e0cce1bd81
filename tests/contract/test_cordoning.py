"""Cordoned log dirs (KIP-1066): where Kafka places new partitions, and what it reports."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ktui.cluster.cordon import CORDONED, EVERY
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, ConfigSource, Setting, Verdict
from ktui.cluster.resources import broker_resource
from support.contract.world import World, alter, change, setting, settled, until

BROKER = 4
NO_CORDON = ("3.9", "4.0", "4.1", "4.2")


@pytest.fixture
async def cordoning(world: World, version: str) -> AsyncIterator[World]:
    """A cluster that knows cordons; broker 4 has none left afterwards."""
    if version in NO_CORDON:
        pytest.skip("Kafka cordons no log dirs before 4.3")
    yield world
    await change(world, setting(ConfigScope.BROKER, str(BROKER), CORDONED, ConfigOp.DELETE))
    await shown(world, cordoned=False)


async def cordon(world: World) -> None:
    await change(world, setting(ConfigScope.BROKER, str(BROKER), CORDONED, ConfigOp.SET, EVERY))
    await shown(world, cordoned=True)


async def shown(world: World, *, cordoned: bool) -> None:
    async def reported() -> bool:
        log_dirs = (await world.reader.log_dirs(BROKER, ())).log_dirs
        return all(each.cordoned is cordoned for each in log_dirs)

    await until(reported, clock=world.clock)


async def in_force(world: World) -> Setting | None:
    resource = broker_resource(BROKER)
    answer = await world.reader.settings([resource], [CORDONED])
    return answer.settings[resource].get(CORDONED)


async def test_a_broker_reports_its_cordon_and_where_it_is_set(cordoning: World) -> None:
    assert await in_force(cordoning) == Setting("", ConfigSource.DEFAULT)

    await cordon(cordoning)

    assert await in_force(cordoning) == Setting(EVERY, ConfigSource.OWN)


async def test_a_broker_before_4_3_does_not_report_the_setting(world: World, version: str) -> None:
    known = await in_force(world) is not None

    assert known is (version not in NO_CORDON)


async def test_new_partitions_avoid_a_broker_whose_log_dirs_are_all_cordoned(
    cordoning: World, topic_name: str
) -> None:
    await cordoning.create_topic(topic_name, [[1, 2, 3]])
    await cordon(cordoning)
    await cordoning.clock.sleep(5.0)  # the controller learns of it by a heartbeat

    assert (await cordoning.writer.create_partitions(topic_name, 20)).verdict is Verdict.ACCEPTED

    async def there() -> list[tuple[int, ...]] | None:
        found = (await cordoning.reader.describe_topics([topic_name])).partitions
        return [state.replicas for state in found.values()] if len(found) == 20 else None

    placed = await until(there, clock=cordoning.clock)
    assert all(BROKER not in replicas for replicas in placed)


async def test_a_reassignment_onto_a_cordoned_broker_is_accepted_by_4_3_and_refused_from_4_4(
    cordoning: World, version: str, topic_name: str
) -> None:
    tp = TopicPartition(topic_name, 0)
    await cordoning.create_topic(topic_name, [[1, 2, 3]])
    await cordon(cordoning)
    await cordoning.clock.sleep(5.0)  # the controller learns of it by a heartbeat

    result = await alter(cordoning, tp, (BROKER, 2, 3))

    if version == "4.3":
        assert result.verdict is Verdict.ACCEPTED
        await settled(cordoning, tp, (BROKER, 2, 3))
    else:  # KAFKA-20832
        assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REPLICA_ASSIGNMENT")
        assert result.message == (
            f"The manual partition assignment includes broker {BROKER}, but all its log "
            "directories are cordoned."
        )


async def test_a_path_that_is_no_log_dir_of_the_broker_cannot_be_cordoned(cordoning: World) -> None:
    wrong = setting(ConfigScope.BROKER, str(BROKER), CORDONED, ConfigOp.SET, "/not/there")

    result = (await cordoning.writer.alter_configs([wrong]))[broker_resource(BROKER)]

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REQUEST")


async def test_a_factor_that_the_brokers_without_a_cordon_cannot_give_is_refused(
    cordoning: World, topic_name: str
) -> None:
    await cordoning.create_topic(topic_name, [[1, 2, 3, 4, 5]])
    await cordon(cordoning)
    await cordoning.clock.sleep(5.0)

    result = await cordoning.writer.create_partitions(topic_name, 2)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REPLICATION_FACTOR")
    assert result.message == (
        "The target replication factor of 5 cannot be reached because only 4 broker(s) are "
        "registered or some brokers have all their log directories cordoned."
    )
