"""Cordoned log dirs (KIP-1066): where Kafka places new partitions, and what it reports."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigOp,
    ConfigScope,
    ConfigSource,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from support.contract.world import World, alter, change, hold_back, let_go, setting, settled, until

BROKER = 4
NO_CORDON = ("3.9", "4.0", "4.1", "4.2")
ACCEPTED = WriteResult(Verdict.ACCEPTED)
REFUSED = WriteResult(
    Verdict.REFUSED,
    "INVALID_REPLICA_ASSIGNMENT",
    "The manual partition assignment includes broker 4, but all its log directories are cordoned.",
)


@pytest.fixture(params=["4.3", "4.4", pytest.param("kafka", marks=pytest.mark.kafka)])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of cluster: 4.4 is the first Kafka that refuses lists with a cordoned broker."""
    return str(request.param)


@pytest.fixture
def named(version: str) -> WriteResult:
    """The answer to a list that names a fully cordoned broker."""
    return ACCEPTED if version == "4.3" else REFUSED


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
    await world.clock.sleep(5.0)  # the controller learns of it by a heartbeat


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

    assert (await cordoning.writer.create_partitions(topic_name, 20)).verdict is Verdict.ACCEPTED

    async def there() -> list[tuple[int, ...]] | None:
        found = (await cordoning.reader.describe_topics([topic_name])).partitions
        return [state.replicas for state in found.values()] if len(found) == 20 else None

    placed = await until(there, clock=cordoning.clock)
    assert all(BROKER not in replicas for replicas in placed)


@pytest.mark.parametrize(
    ("before", "target"),
    [
        ((1, 2, 3), (BROKER, 2, 3)),
        ((BROKER, 2, 3), (2, 3, BROKER)),
        ((BROKER, 2, 3), (BROKER, 2)),
        ((BROKER, 2, 3), (BROKER, 2, 3)),
        ((1, 2, BROKER), (1, 2, BROKER, 3)),
    ],
    ids=["added", "reordered", "kept by a shrink", "as it is", "kept beside one that is added"],
)
async def test_from_4_4_no_list_may_name_a_broker_whose_log_dirs_are_all_cordoned(
    cordoning: World,
    topic_name: str,
    named: WriteResult,
    before: tuple[int, ...],
    target: tuple[int, ...],
) -> None:
    tp, other = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    await cordoning.create_topic(topic_name, [before, (1, 2, 3)])
    await cordon(cordoning)

    results = await cordoning.writer.alter_reassignments(
        {tp: target, other: (3, 2, 1)}, allow_replication_factor_change=True
    )

    assert results == {tp: named, other: ACCEPTED}
    await settled(cordoning, tp, target if named == ACCEPTED else before)
    await settled(cordoning, other, (3, 2, 1))


async def test_a_move_that_leaves_a_cordoned_broker_out_and_a_cancel_are_accepted(
    cordoning: World, topic_name: str
) -> None:
    leaves, cancelled, goes_on = (TopicPartition(topic_name, number) for number in range(3))
    await cordoning.create_topic(topic_name, [(BROKER, 2, 3), (1, 2, BROKER), (1, 2, 3)])
    for tp, broker in ((cancelled, 5), (goes_on, BROKER)):
        await cordoning.append(tp, 200, 1_000)
        await hold_back(cordoning, tp, broker)
    assert await alter(cordoning, cancelled, (1, BROKER, 5)) == ACCEPTED
    assert await alter(cordoning, goes_on, (1, 2, BROKER)) == ACCEPTED
    await cordon(cordoning)

    assert await alter(cordoning, leaves, (1, 2, 3)) == ACCEPTED
    assert await alter(cordoning, cancelled, None) == ACCEPTED
    await let_go(cordoning, goes_on)

    await settled(cordoning, leaves, (1, 2, 3))
    await settled(cordoning, cancelled, (1, BROKER, 2))
    await settled(cordoning, goes_on, (1, 2, BROKER))


async def test_partitions_cannot_be_added_by_hand_on_a_cordoned_broker_from_4_4(
    cordoning: World, topic_name: str, named: WriteResult
) -> None:
    await cordoning.create_topic(topic_name, [(1, 2, 3)])
    await cordon(cordoning)

    added = await cordoning.writer.create_partitions(topic_name, 2, [(1, BROKER, 3)])

    assert added == named


async def test_a_path_that_is_no_log_dir_of_the_broker_cannot_be_cordoned(cordoning: World) -> None:
    wrong = setting(ConfigScope.BROKER, str(BROKER), CORDONED, ConfigOp.SET, "/not/there")

    result = (await cordoning.writer.alter_configs([wrong]))[broker_resource(BROKER)]

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REQUEST")


async def test_a_factor_that_the_brokers_without_a_cordon_cannot_give_is_refused(
    cordoning: World, topic_name: str
) -> None:
    await cordoning.create_topic(topic_name, [[1, 2, 3, 4, 5]])
    await cordon(cordoning)

    result = await cordoning.writer.create_partitions(topic_name, 2)

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_REPLICATION_FACTOR")
    assert result.message == (
        "The target replication factor of 5 cannot be reached because only 4 broker(s) are "
        "registered or some brokers have all their log directories cordoned."
    )
