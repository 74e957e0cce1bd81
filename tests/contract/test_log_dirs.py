"""Brokers with two log dirs: where replicas are, moves between the two, and one that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection

import pytest

from ktui.cluster.broker import LogDir, ReplicaDir
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Verdict, WriteResult
from ktui.cluster.settings import LOG_DIR_RATE
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.contract.world import (
    RealWorld,
    SimulatedWorld,
    World,
    alter,
    change,
    setting,
    settled,
    state,
    until,
)

MESSAGES, SIZE = 4_000, 1_000


@pytest.fixture
def make_world(
    is_real: bool,  # noqa: FBT001 - a fixture
    request: pytest.FixtureRequest,
) -> Callable[[], RealWorld | SimulatedWorld]:
    """How to reach a cluster with two log dirs a broker; the real one has brokers 1 and 2 only."""
    if not is_real:
        return lambda: SimulatedWorld(log_dirs=2)
    lab: Lab = request.getfixturevalue("jbod_lab")
    return lambda: RealWorld(Connection.to(lab.bootstrap_servers))


@pytest.fixture
async def slow(world: World) -> AsyncIterator[None]:
    """Broker 1 copies so slowly from log dir to log dir that its moves stay in flight.

    Asked for before a topic is made: the broker that knows the topic knows the throttle, too.
    """
    await change(world, setting(ConfigScope.BROKER, "1", LOG_DIR_RATE, ConfigOp.SET, "1000"))
    yield
    await at_full_speed(world)


async def at_full_speed(world: World) -> None:
    await change(world, setting(ConfigScope.BROKER, "1", LOG_DIR_RATE, ConfigOp.DELETE))


@pytest.fixture
async def tp(world: World, topic_name: str) -> TopicPartition:
    """A partition on brokers 1 and 2 that holds 4,000 messages."""
    await world.create_topic(topic_name, [[1, 2]])
    tp = TopicPartition(topic_name, 0)
    await world.append(tp, MESSAGES, SIZE)
    return tp


async def replica(world: World, tp: TopicPartition, broker: int) -> ReplicaDir:
    return (await world.reader.log_dirs(broker, [tp])).replicas[tp]


async def paths(world: World, broker: int) -> list[str]:
    return sorted(each.path for each in (await world.reader.log_dirs(broker, [])).log_dirs)


async def other_path(world: World, tp: TopicPartition) -> str:
    """Return the log dir of broker 1 that does not hold the replica."""
    (other,) = {*await paths(world, 1)} - {(await replica(world, tp, 1)).path}
    return other


async def move(world: World, broker: int, tp: TopicPartition, path: str) -> WriteResult:
    return (await world.writer.alter_log_dirs(broker, {tp: path}))[tp]


async def arrived(
    world: World, broker: int, partitions: Collection[TopicPartition], path: str
) -> None:
    """Wait until the broker has these replicas in this log dir, and moves none of them."""

    async def there() -> bool:
        held = (await world.reader.log_dirs(broker, partitions)).replicas
        places = {tp: (each.path, each.future) for tp, each in held.items()}
        return places == dict.fromkeys(partitions, (path, None))

    await until(there, clock=world.clock)


async def test_a_broker_reports_its_log_dirs_and_the_one_that_holds_a_replica(
    world: World, tp: TopicPartition
) -> None:
    answer = await world.reader.log_dirs(1, [tp])

    assert len(answer.log_dirs) == 2
    assert all(each.error is None and each.usable_bytes for each in answer.log_dirs)
    held = answer.replicas[tp]
    assert held.path in {each.path for each in answer.log_dirs}
    assert held.size == answer.sizes[tp] >= MESSAGES * SIZE
    assert held.future is None


async def test_without_names_a_broker_reports_every_replica_and_its_move(
    world: World, slow: None, tp: TopicPartition
) -> None:
    del slow
    await move(world, 1, tp, await other_path(world, tp))

    every, named, none = [await world.reader.log_dirs(1, which) for which in (None, [tp], [])]

    assert {*every.replicas} >= {tp}
    assert every.replicas[tp].future is not None
    assert every.replicas[tp].path == named.replicas[tp].path
    assert ({*named.replicas}, {*none.replicas}) == ({tp}, set())


async def test_new_replicas_use_all_log_dirs(world: World, topic_name: str) -> None:
    await world.create_topic(topic_name, [[1]] * 4)
    partitions = [TopicPartition(topic_name, number) for number in range(4)]

    held = (await world.reader.log_dirs(1, partitions)).replicas

    assert sorted({each.path for each in held.values()}) == await paths(world, 1)


async def test_a_replica_that_moves_to_another_log_dir_arrives_with_all_its_messages(
    world: World, slow: None, tp: TopicPartition
) -> None:
    del slow
    path, epoch = await other_path(world, tp), (await state(world, tp)).leader_epoch

    assert (await move(world, 1, tp, path)).verdict is Verdict.ACCEPTED

    moving = await replica(world, tp, 1)
    assert moving.path != path
    assert moving.future is not None
    assert moving.future.path == path
    assert moving.future.size < moving.size
    assert moving.future.offset_lag is not None
    assert 0 < moving.future.offset_lag <= MESSAGES

    await at_full_speed(world)
    await arrived(world, 1, [tp], path)
    assert (await replica(world, tp, 1)).size >= MESSAGES * SIZE
    assert (await world.reader.log_offsets(1, ends=[tp])).ends == {tp: MESSAGES}
    now = await state(world, tp)
    assert (now.leader_epoch, {*now.isr}) == (epoch, {1, 2})


async def test_the_present_log_dir_ends_a_move(
    world: World, slow: None, tp: TopicPartition
) -> None:
    del slow
    before = await replica(world, tp, 1)
    await move(world, 1, tp, await other_path(world, tp))
    assert (await replica(world, tp, 1)).future is not None

    assert (await move(world, 1, tp, before.path)).verdict is Verdict.ACCEPTED

    assert await replica(world, tp, 1) == before
    assert (await move(world, 1, tp, before.path)).verdict is Verdict.ACCEPTED


async def test_the_log_dir_for_a_replica_that_the_broker_gets_later_is_remembered(
    world: World, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[2]] * 4)
    partitions = [TopicPartition(topic_name, number) for number in range(4)]
    path = (await paths(world, 1))[1]

    results = await world.writer.alter_log_dirs(1, dict.fromkeys(partitions, path))

    assert {(r.verdict, r.code) for r in results.values()} == {
        (Verdict.REFUSED, "REPLICA_NOT_AVAILABLE")
    }
    await world.writer.alter_reassignments(
        dict.fromkeys(partitions, (2, 1)), allow_replication_factor_change=True
    )
    await arrived(world, 1, partitions, path)


async def test_a_log_dir_or_partition_that_is_unknown_is_refused(
    world: World, tp: TopicPartition
) -> None:
    path = (await replica(world, tp, 1)).path
    absent = TopicPartition(f"{tp.topic}-not-there", 0)

    results = await world.writer.alter_log_dirs(1, {tp: f"{path}/", absent: path})

    refused = Verdict.REFUSED
    assert {each: (r.verdict, r.code) for each, r in results.items()} == {
        tp: (refused, "LOG_DIR_NOT_FOUND"),
        absent: (refused, "UNKNOWN_TOPIC_OR_PARTITION"),
    }


async def test_a_reassignment_takes_a_replica_away_also_in_the_middle_of_its_move(
    world: World, slow: None, tp: TopicPartition
) -> None:
    del slow
    await move(world, 1, tp, await other_path(world, tp))

    await alter(world, tp, (2,), factor=True)
    await settled(world, tp, (2,))

    async def gone() -> bool:
        return not (await world.reader.log_dirs(1, [tp])).replicas

    await until(gone, clock=world.clock)


async def test_a_log_dir_that_fails_takes_its_replicas_out_of_the_isr(
    world: World, topic_name: str
) -> None:
    """The last test: the log dir stays broken."""
    await world.create_topic(topic_name, [[2, 1], [2, 1]])
    lost, kept = (TopicPartition(topic_name, number) for number in range(2))
    first, second = await paths(world, 2)
    await world.writer.alter_log_dirs(2, {lost: second, kept: first})
    await arrived(world, 2, [lost], second)
    await arrived(world, 2, [kept], first)

    async def in_sync() -> bool:  # else nothing could lead once the dir has failed
        return {*(await state(world, lost)).isr} == {1, 2}

    await until(in_sync, clock=world.clock)
    await world.fail_log_dir(2, second)

    async def failed() -> bool:
        return (
            LogDir(2, second, "KAFKA_STORAGE_ERROR")
            in (await world.reader.log_dirs(2, [])).log_dirs
        )

    async def taken_out() -> bool:
        now = await state(world, lost)
        return (now.leader, now.isr, now.offline) == (1, (1,), (2,))

    await until(failed, clock=world.clock)
    await until(taken_out, clock=world.clock)
    assert (await world.reader.log_dirs(2, [lost, kept])).replicas.keys() == {kept}
    assert (await state(world, kept)).offline == ()
    assert (await world.reader.log_offsets(2, ends=[lost])).errors == {lost: "KAFKA_STORAGE_ERROR"}
    moves = [await move(world, 2, lost, first), await move(world, 2, kept, second)]
    assert {(r.verdict, r.code) for r in moves} == {(Verdict.REFUSED, "KAFKA_STORAGE_ERROR")}
