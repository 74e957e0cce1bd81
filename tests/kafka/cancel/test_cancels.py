"""Partitions cancelled at every stage of a run, throttled ones too, and seen on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path

import pytest
from kafka.protocol.api_key import ApiKey

from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.events import Configure, StepBegun
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits, Shape
from ktui.planning.throttle_rates import parse_throttle_rates
from support.contract.world import RealWorld, until
from support.kafka.acked_messages import AckedMessages
from support.kafka.labs import is_before_43
from support.kafka.proxy import CancelWire
from support.kafka.real_cancels import ORIGINAL, TARGET, CalledOff
from support.kafka.real_runs import RealRun, all_settings, changed, described
from support.kafka.slow_topic import BYTES_EACH, altered_while_moving, hold, let_go, slow_down
from support.runs.cancel_stories import Case, Scope, Stage, a_grid

AT_ONCE = 12
G, K = Shape.GENTLE, Shape.KIP_435
STOP, BACK, TRIM = CancelKind.STOP, CancelKind.ROLLBACK, CancelKind.TRIM
ONE, TOPIC, EVERY = Scope.PARTITION, Scope.TOPIC, Scope.ALL

PAIRS = [
    Case(G, None, Stage.QUEUED, STOP, ONE),
    Case(K, 2, Stage.QUEUED, BACK, TOPIC),
    Case(G, 1, Stage.QUEUED, TRIM, EVERY),
    Case(K, 1, Stage.ADDING, STOP, TOPIC),
    Case(G, 2, Stage.ADDING, BACK, EVERY),
    Case(K, None, Stage.ADDING, TRIM, ONE),
    Case(G, None, Stage.ADDING, BACK, TOPIC),
    Case(K, 1, Stage.LEADS, STOP, ONE),
    Case(K, 1, Stage.LEADS, BACK, EVERY),
    Case(K, 2, Stage.LEADS, TRIM, TOPIC),
    Case(G, 1, Stage.MID, STOP, EVERY),
    Case(G, 1, Stage.MID, BACK, ONE),
    Case(G, 1, Stage.MID, TRIM, TOPIC),
    Case(G, 2, Stage.MID, BACK, EVERY),
    Case(K, 1, Stage.MID, BACK, TOPIC),
    Case(K, 1, Stage.LAST, STOP, EVERY),
    Case(K, 1, Stage.LAST, BACK, ONE),
    Case(K, 2, Stage.LAST, TRIM, EVERY),
    Case(G, 1, Stage.LAST, BACK, TOPIC),
    Case(G, 2, Stage.LAST, STOP, ONE),
    Case(G, 1, Stage.DONE, STOP, ONE),
    Case(K, 1, Stage.DONE, BACK, TOPIC),
    Case(K, None, Stage.DONE, BACK, EVERY),
    Case(G, 2, Stage.DONE, TRIM, TOPIC),
]
"""Covers every possible pair of shape, R, stage, kind and scope."""

ON_BOTH = [
    Case(K, 1, Stage.ADDING, BACK, EVERY),
    Case(G, 1, Stage.MID, BACK, ONE),
    Case(K, 1, Stage.MID, STOP, TOPIC),
    Case(K, 1, Stage.LAST, BACK, EVERY),
    Case(K, 2, Stage.LAST, TRIM, ONE),
    Case(G, 2, Stage.DONE, BACK, EVERY),
]


@pytest.fixture
async def held(lab_of: Lab) -> AsyncIterator[RealWorld]:
    """A cluster whose brokers 4 and 5 copy throttled replicas extremely slowly."""
    world = RealWorld(Connection.to(lab_of.bootstrap_servers))
    await slow_down(world, 4, 5)
    yield world
    await world.aclose()


async def test_rollbacks_restore_the_original_and_stops_and_trims_match_the_preview(
    held: RealWorld, lab_of: Lab, tmp_path: Path
) -> None:
    cases = ON_BOTH if is_before_43(lab_of) else PAIRS
    await assert_as_previewed(cases, held, lab_of, tmp_path)


async def test_a_stopped_partition_is_trimmed_then_rolled_back_without_losing_messages(
    world: RealWorld, lab: Lab, tmp_path: Path
) -> None:
    await slow_down(world, 4, 5)
    called = CalledOff(Case(K, 1, Stage.LEADS, STOP, ONE), world, lab, tmp_path, "in-turn")
    await called.made()
    with AckedMessages(world.connection, called.subject, 2) as messages:
        await called.played()
        left = [await called.left()]
        for kind in (TRIM, BACK):
            called.run.ask(CancelMoves(kind, partitions=(called.tp,)))
            await called.run.execute()
            left.append(await called.left())

    assert left == [((4, 1, 2, 3), 4), ((4, 2, 1), 4), (ORIGINAL, ORIGINAL[0])]
    assert messages.acknowledged
    assert not messages.missing
    assert not messages.failed


@pytest.mark.soak
async def test_every_cancel_at_every_stage_ends_as_previewed(
    held: RealWorld, lab_of: Lab, tmp_path: Path
) -> None:
    await assert_as_previewed(list(a_grid()), held, lab_of, tmp_path)


async def assert_as_previewed(
    cases: Collection[Case], world: RealWorld, lab: Lab, folder: Path
) -> None:
    """Play cases, some at once; check that all ended as previewed and that none was altered
    while it moved, except by its cancel."""
    some, topics = asyncio.Semaphore(AT_ONCE), list[str]()

    async def played(number: int, case: Case) -> list[str]:
        own = folder / str(number)
        own.mkdir()
        called = CalledOff(case, world, lab, own, f"off-{number}")
        topics.extend((called.subject, called.other))
        async with some:
            try:
                await called.made()
                await called.played()
                return await called.differences()
            except Exception as error:  # noqa: BLE001 - reported with the others
                return [f"{case.name}: {error!r}"]
            finally:
                await called.aclose()

    results = await asyncio.gather(*(played(n, case) for n, case in enumerate(cases)))

    differing = [line for lines in results for line in lines]
    assert not differing, "\n".join(differing)
    assert not altered_while_moving(lab, *topics)


THROTTLED_PARTITIONS = 3


@pytest.mark.parametrize(
    "shape", [Shape.KIP_435, pytest.param(Shape.GENTLE, marks=pytest.mark.soak)]
)
async def test_a_throttled_rollback_restores_every_setting(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path, shape: Shape
) -> None:
    await world.create_topic(topic_name, [ORIGINAL] * THROTTLED_PARTITIONS)
    await asyncio.to_thread(
        fill, world.connection, topic_name, range(THROTTLED_PARTITIONS), bytes_each=BYTES_EACH
    )
    before = all_settings(world.connection)
    tps = [TopicPartition(topic_name, n) for n in range(THROTTLED_PARTITIONS)]
    limits = Limits(replicas=1, partitions=2, shape=shape)
    throttle = parse_throttle_rates("2MB")
    run = RealRun(lab, tmp_path, dict.fromkeys(tps, TARGET), limits, poll_s=0.2, throttle=throttle)
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: is_done(run, tps[0]))
        run.ask(CancelMoves(CancelKind.ROLLBACK))

    assert {t.state for t in run.run.tracks.values() if t.begun} == {State.ROLLED_BACK}
    found = await described(world.connection, topic_name)
    assert {(state.replicas, state.leader) for state in found.values()} == {(ORIGINAL, ORIGINAL[0])}
    assert not changed(world.connection, before)
    adds = {(e.tp, broker) for e in run.events if isinstance(e, StepBegun) for broker in e.adding}
    assert {broker for _, broker in adds} == {2, 3, 4, 5}
    assert throttled(run) == {f"{tp.partition}:{broker}" for tp, broker in adds}


async def is_done(run: RealRun, tp: TopicPartition) -> bool:
    return bool(run.run.tracks) and run.run.tracks[tp].state is State.DONE


def throttled(run: RealRun) -> set[str]:
    """Return the replicas that the run has throttled, as Kafka spells them."""
    configures = (e for e in run.events if isinstance(e, Configure) and not e.puts_back)
    changes = [change for event in configures for change in event.changes]
    assert {change.key for change in changes} <= {FOLLOWER_RATE, FOLLOWER_REPLICAS}
    lists = (c.value or "" for c in changes if c.key == FOLLOWER_REPLICAS and c.op == "append")
    return {entry for value in lists for entry in value.split(",")}


LISTS = ApiKey.ListPartitionReassignments
LISTS_BEFORE = (2, 3)
"""The two listings that a cancel rests on, and perhaps that of a poll in progress."""
TOGETHER, MORE = 4, 8


@pytest.fixture
def wire(lab: Lab) -> Iterator[CancelWire]:
    with CancelWire(lab) as wire:
        yield wire


@pytest.fixture
async def topic(world: RealWorld, topic_name: str) -> str:
    """Partitions whose copies to broker 5 make no progress; those to 4 do."""
    await slow_down(world, 5)
    await world.create_topic(topic_name, [ORIGINAL] * MORE)
    await asyncio.to_thread(fill, world.connection, topic_name, range(MORE), bytes_each=BYTES_EACH)
    await hold(world, topic_name, *(f"{n}:5" for n in range(MORE)))
    return topic_name


def through(wire: CancelWire, lab: Lab, folder: Path, topic: str) -> RealRun:
    """Return a run whose engine reaches the cluster over the watched wire."""
    targets = {TopicPartition(topic, n): TARGET for n in range(MORE)}
    limits = Limits(replicas=1, partitions=TOGETHER)
    run = RealRun(lab, folder, targets, limits, poll_s=0.3)
    run.connection = Connection.to(wire.bootstrap_servers)
    return run


async def all_are_adding(run: RealRun) -> bool:
    """Whether every in-flight step adds the second replica and was answered."""
    steps = [track.step for track in run.run.tracks_in_flight.values()]
    return sum(bool(s and s.answered and s.begun.adding == (5,)) for s in steps) == TOGETHER


async def test_a_stop_sends_only_the_cancels_of_in_flight_partitions_and_at_once(
    wire: CancelWire, lab: Lab, topic: str, tmp_path: Path
) -> None:
    run = through(wire, lab, tmp_path, topic)
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: all_are_adding(run))
        run.ask(CancelMoves(CancelKind.STOP))
        requests_before = len(wire.arrived)

    assert run.run.counts[State.STOPPED] == MORE
    cancels = {TopicPartition(topic, n): None for n in range(TOGETHER)}
    sent = [n for n, request in enumerate(wire.arrived) if n >= requests_before and request.targets]
    assert [wire.arrived[n].targets for n in sent] == [cancels]
    assert wire.count(LISTS, since=requests_before, until=sent[0]) in LISTS_BEFORE
    assert wire.count(ApiKey.ElectLeaders, since=requests_before, until=len(wire.arrived)) == 0


async def test_a_rollback_cancels_polls_and_then_alters_while_other_partitions_proceed(
    world: RealWorld, wire: CancelWire, lab: Lab, topic: str, tmp_path: Path
) -> None:
    run = through(wire, lab, tmp_path, topic)
    some = [TopicPartition(topic, n) for n in range(TOGETHER // 2)]
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: all_are_adding(run))
        run.ask(CancelMoves(CancelKind.ROLLBACK, partitions=tuple(some)))
        requests_before = len(wire.arrived)
        await until(lambda: are_back(run, some))
        await let_go(world, topic)

    found = await described(world.connection, topic)
    for tp, state in found.items():
        expected = ORIGINAL if tp in some else TARGET
        assert (tp, state.replicas, state.leader) == (tp, expected, expected[0])
    for tp in some:
        of_it = [
            n for n, one in enumerate(wire.arrived) if n >= requests_before and tp in one.targets
        ]
        assert [wire.arrived[n].targets[tp] for n in of_it] == [None, ORIGINAL]
        assert wire.count(LISTS, since=requests_before, until=of_it[0]) in LISTS_BEFORE
        assert wire.count(LISTS, since=of_it[0], until=of_it[1]) >= 1


async def are_back(run: RealRun, some: list[TopicPartition]) -> bool:
    return all(run.run.tracks[tp].state is State.ROLLED_BACK for tp in some)


@pytest.mark.soak
async def test_a_cancel_with_a_lost_answer_ends_like_an_answered_one(
    world: RealWorld, wire: CancelWire, lab: Lab, topic: str, tmp_path: Path
) -> None:
    run = through(wire, lab, tmp_path, topic)
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: all_are_adding(run))
        lose(wire, ApiKey.AlterPartitionReassignments)
        run.ask(CancelMoves(CancelKind.ROLLBACK))
        requests_before = len(wire.arrived)
        await until(lambda: has_sent(wire, requests_before))
        lose(wire)

    found = await described(world.connection, topic)
    assert {(state.replicas, state.leader) for state in found.values()} == {(ORIGINAL, ORIGINAL[0])}
    forward = [
        to for _, to in wire.altered(requests_before) if to is not None and {*to} - {*ORIGINAL}
    ]
    assert not forward


def lose(wire: CancelWire, *keys: int) -> None:
    """Lose the answers to some kinds of requests, and to no others."""
    for proxy in wire.brokers.values():
        proxy.lose = set(keys)


async def has_sent(wire: CancelWire, since: int) -> bool:
    return bool(wire.altered(since))
