"""Requests on the wire after a cancel: the cancels, and no step forward."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.protocol.api_key import ApiKey

from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits
from support.contract.world import RealWorld, until
from support.kafka.proxy import CancelWire
from support.kafka.real_cancels import ORIGINAL, TARGET
from support.kafka.real_runs import RealRun, described
from support.kafka.slow_topic import BYTES_EACH, hold, let_go, slow_down

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
