"""Cancels while brokers are down, topics are deleted, or engines are killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path

import pytest

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.execution.engine.requests import LAST_IN_SYNC
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Cancel, Ended, Owned
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import SHAPES, Limits, Shape
from support.cli.shell import LIMIT_S, Shell
from support.contract.world import RealWorld, change, setting, until
from support.kafka.labs import Outage
from support.kafka.real_runs import RealRun, described
from support.kafka.slow_topic import (
    BYTES_EACH,
    altered_while_moving,
    filled_topic,
    hold,
    let_go,
    slow_down,
)

DOWN = 2
UNCLEAN = "unclean.leader.election.enable"
"""With this setting Kafka would cancel even the only copy."""
Replicas = tuple[int, ...]
Ways = Mapping[TopicPartition, tuple[Replicas, Replicas]]


class Stories:
    """Concurrent runs on one cluster, each with a topic of its own."""

    def __init__(self, lab: Lab, world: RealWorld, folder: Path, topic: str) -> None:
        self._lab, self._world, self._folder, self._topic = lab, world, folder, topic

    async def run(self, name: str, *ways: tuple[Replicas, Replicas], replicas: int = 1) -> RealRun:
        """Create a topic with data and start a run that moves it."""
        topic = f"{self._topic}-{name}"
        await self._world.create_topic(topic, [before for before, _ in ways])
        await asyncio.to_thread(
            fill, self._world.connection, topic, range(len(ways)), bytes_each=BYTES_EACH
        )
        folder = self._folder / name
        folder.mkdir()
        targets = {TopicPartition(topic, n): to for n, (_, to) in enumerate(ways)}
        run = RealRun(self._lab, folder, targets, Limits(replicas=replicas), poll_s=0.3)
        await run.start()
        return run


def topic_of(run: RealRun) -> str:
    return run.plan.partitions[0].topic


async def is_in(run: RealRun, state: State, reason: str = "") -> bool:
    """Whether a partition of the run is in a state, for a reason."""
    tracks = run.run.tracks.values()
    return any(track.state is state and reason in track.reason for track in tracks)


async def is_answered(run: RealRun) -> bool:
    """Whether Kafka has answered to the step of each partition."""
    steps = [track.step for track in run.run.tracks.values()]
    return bool(steps) and all(step is not None and step.answered for step in steps)


async def is_going_back(run: RealRun) -> bool:
    flying = run.run.tracks_in_flight.values()
    return any(
        track.cancel and track.step and track.step.answered and not track.step.cancelled_by_operator
        for track in flying
    )


async def test_a_cancel_blocked_by_a_dead_broker_is_refused_then_done_once_it_is_back(
    lab: Lab, world: RealWorld, outage: Outage, topic_name: str, tmp_path: Path
) -> None:
    stories = Stories(lab, world, tmp_path, topic_name)
    to_be_back = await stories.run("back", ((2, 1, 3), (4, 5, 1)))
    one = await stories.run("one", ((1,), (4,)))
    on_its_way = await stories.run("on-its-way", ((2, 1, 3), (4, 5, 1)))
    onto_it = await stories.run("onto-it", ((1, 3, 4), (2, 3, 4)))
    single = await stories.run("single", ((2,), (4, 5)), replicas=2)
    await change(world, setting(ConfigScope.TOPIC, topic_of(single), UNCLEAN, ConfigOp.SET, "true"))
    await asyncio.gather(*(run.execute() for run in (to_be_back, one, on_its_way)))
    await slow_down(world, 2, 5)
    await hold(world, topic_of(on_its_way), "0:2")
    await hold(world, topic_of(onto_it), "0:2")
    await hold(world, topic_of(single), "0:5")
    on_its_way.ask(CancelMoves(CancelKind.ROLLBACK))
    async with asyncio.TaskGroup() as group:
        for run in (on_its_way, onto_it, single):
            group.create_task(run.execute())
        await until(lambda: is_going_back(on_its_way))
        await until(lambda: are_in_sync(world, topic_of(single), {2, 4}))
        outage.kill(DOWN)
        await until(lambda: are_in_sync(world, topic_of(single), {4}))
        single.ask(CancelMoves(CancelKind.STOP))
        onto_it.ask(CancelMoves(CancelKind.ROLLBACK))
        for run in (to_be_back, one):
            run.ask(CancelMoves(CancelKind.ROLLBACK))
            group.create_task(run.execute())
        await until(lambda: is_in(single, State.REFUSED, LAST_IN_SYNC))
        offline = "broker 2 of its original replicas is down"
        await until(lambda: is_in(to_be_back, State.REFUSED, offline))
        await until(lambda: is_in(one, State.ROLLED_BACK))
        await until(lambda: is_in(onto_it, State.ROLLED_BACK))
        assert on_its_way.run.in_flight == 1
        assert await as_left(world, single) == {0: ((2, 4, 5), 4)}
        await asyncio.to_thread(outage.mend)
        await let_go(world, topic_of(on_its_way))

    assert await as_left(world, to_be_back) == {0: ((2, 1, 3), 2)}
    assert await as_left(world, one) == {0: ((1,), 1)}
    assert await as_left(world, onto_it) == {0: ((1, 3, 4), 1)}
    assert await as_left(world, on_its_way) == {0: ((2, 1, 3), 2)}
    assert await as_left(world, single) == {0: ((2,), 2)}
    assert all(run.run.counts[State.ROLLED_BACK] for run in (to_be_back, one, onto_it, on_its_way))
    assert single.run.counts[State.STOPPED] == 1


async def test_a_topic_deleted_during_its_rollback_ends_with_the_reason(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    stories = Stories(lab, world, tmp_path, topic_name)
    run = await stories.run("gone", ((2, 1, 3), (4, 5, 1)), ((1, 2, 3), (1, 2, 3)))
    await run.execute()
    await slow_down(world, 2)
    await hold(world, topic_of(run), "0:2")
    run.ask(CancelMoves(CancelKind.ROLLBACK))
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: is_going_back(run))
        await world.delete_topic(topic_of(run))

    gone = run.run.tracks[TopicPartition(topic_of(run), 0)]
    assert (gone.state, gone.reason) == (State.TOPIC_GONE, "its topic was deleted")


@pytest.mark.soak
async def test_a_rollback_requested_while_the_controller_hangs_completes_afterwards(
    lab: Lab, world: RealWorld, outage: Outage, topic_name: str, tmp_path: Path
) -> None:
    stories = Stories(lab, world, tmp_path, topic_name)
    run = await stories.run("lost", *[((2, 1, 3), (4, 5, 1))] * 2)
    await slow_down(world, 4)
    await hold(world, topic_of(run), "0:4")
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: is_answered(run))
        await asyncio.to_thread(outage.suspend, lab.controller.id)
        run.ask(CancelMoves(CancelKind.ROLLBACK))
        await until(lambda: is_lost(run), limit_s=100)
        await asyncio.to_thread(outage.mend)

    assert await as_left(world, run) == {0: ((2, 1, 3), 2), 1: ((2, 1, 3), 2)}
    assert run.run.counts[State.ROLLED_BACK] == 2


async def is_lost(run: RealRun) -> bool:
    return run.run.outage is not None


async def are_in_sync(world: RealWorld, topic: str, brokers: set[int]) -> bool:
    (state,) = (await described(world.connection, topic)).values()
    return {*state.isr} == brokers


async def as_left(world: RealWorld, run: RealRun) -> dict[int, tuple[Replicas, int | None]]:
    found = await described(world.connection, topic_of(run))
    return {tp.partition: (state.replicas, state.leader) for tp, state in found.items()}


RUN = "moves"
AT_ONCE, KILLS = 4, 10
MOST_EVENTS, LONG_S = 5, 2.0
Moves = dict[TopicPartition, tuple[Replicas, Replicas]]


@pytest.fixture
def moves(lab: Lab, topic_name: str, shell: Shell) -> Iterator[Moves]:
    """Partitions with data that move from brokers 2 and 3 to 4 and 5."""
    connection = Connection.to(lab.bootstrap_servers)
    ways = list(zip(permutations((1, 2, 3)), permutations((4, 5, 1)), strict=True)) * 2
    replicas = [before for before, _ in ways]
    with filled_topic(connection, topic_name, replicas, bytes_each=BYTES_EACH):
        yield {TopicPartition(topic_name, n): way for n, way in enumerate(ways)}
        shell.close()


@pytest.mark.parametrize(
    "shape", [Shape.KIP_435, pytest.param(Shape.GENTLE, marks=pytest.mark.soak)]
)
async def test_the_next_engine_finishes_the_rollback_of_a_killed_one(
    lab: Lab, world: RealWorld, shell: Shell, moves: Moves, shape: Shape
) -> None:
    (topic,) = {tp.topic for tp in moves}
    await slow_down(world, 2, 3)
    await hold(world, topic, *(f"{n}:{b}" for n in range(len(moves)) for b in (2, 3)))
    begin(shell, moves, shape)
    roll_back_once_done(shell, AT_ONCE)
    wait_until_copying_to(shell, {2, 3})
    kill_and_resume(shell)
    await hold(world, topic, *(f"{n}:3" for n in range(len(moves))))
    wait_until_copying_to(shell, {3})
    kill_and_resume(shell)
    await let_go(world, topic)
    shell.wait_for(RUN, Ended)

    await assert_all_restored(lab, shell, moves)


@pytest.mark.soak
async def test_the_next_engine_finishes_a_rollback_whose_cancels_were_in_flight(
    lab: Lab, world: RealWorld, shell: Shell, moves: Moves
) -> None:
    (topic,) = {tp.topic for tp in moves}
    await slow_down(world, 4)
    await hold(world, topic, *(f"{n}:4" for n in range(AT_ONCE, len(moves))))
    begin(shell, moves, Shape.GENTLE)
    wait_until_copying_to(shell, {4})
    roll_back(shell)
    shell.wait_for(RUN, Cancel)
    kill_and_resume(shell)
    await let_go(world, topic)
    shell.wait_for(RUN, Ended)

    await assert_all_restored(lab, shell, moves)


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_rollback_ends_the_same_however_often_its_engines_are_killed(
    lab: Lab, shell: Shell, moves: Moves, shape: Shape
) -> None:
    chance = random.Random(shape.value)  # noqa: S311 - a seed
    begin(shell, moves, shape)
    roll_back_once_done(shell, 3)
    for _ in range(KILLS):
        wait_for_events(shell, chance.randint(1, MOST_EVENTS))
        kill_and_resume(shell)
    shell.wait_for(RUN, Ended)

    assert len(shell.events(RUN, Owned)) == KILLS + 1
    await assert_all_restored(lab, shell, moves)


def begin(shell: Shell, moves: Moves, shape: Shape) -> None:
    """Start the run like an operator, with an engine of its own."""
    targets = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(after)}
        for tp, (_, after) in moves.items()
    ]
    words = ("--shape", shape.value, "--partitions", str(AT_ONCE), "--poll", "200ms", "--headless")
    shell.begin("start", shell.plan(RUN, targets), *words)
    shell.wait_for(RUN, Owned)


def roll_back_once_done(shell: Shell, done: int) -> None:
    """Roll everything back once ``done`` partitions are done and others are in flight."""

    def far_enough() -> bool:
        run = folded(shell)
        return run.counts[State.DONE] >= done and run.in_flight > 0

    assert wait_for(far_enough, seconds=LIMIT_S), shell.log(RUN)
    roll_back(shell)


def roll_back(shell: Shell) -> None:
    """Roll everything back, and wait for the engine's answer."""
    with Journal.open(shell.run_dir(RUN).journal, SystemClock()) as journal:
        number = journal.ask(CancelMoves(CancelKind.ROLLBACK), "another shell")
        assert wait_for(lambda: journal.answer_to(number).answer is not None, seconds=LIMIT_S)


def wait_until_copying_to(shell: Shell, brokers: set[int]) -> None:
    """Wait until all in-flight steps are answered and these brokers are copying."""

    def all_waiting() -> bool:
        steps = [track.step for track in folded(shell).tracks_in_flight.values() if track.step]
        answered = all(step.answered and not step.cancelled_by_operator for step in steps)
        adding = [brokers & {*step.begun.adding} for step in steps]
        return len(steps) == AT_ONCE and answered and all(adding)

    assert wait_for(all_waiting, seconds=LIMIT_S), shell.log(RUN)


def wait_for_events(shell: Shell, count: int) -> None:
    """Wait until the journal has ``count`` more events, or none arrive for long."""
    enough = last_seq(shell) + count
    wait_for(lambda: last_seq(shell) >= enough, seconds=LONG_S)


def kill_and_resume(shell: Shell) -> None:
    owners = len(shell.events(RUN, Owned))
    os.kill(shell.owner(RUN).pid, signal.SIGKILL)
    assert shell.unowned(RUN)
    shell.begin("resume", RUN, "--headless")
    shell.wait_for(RUN, Owned, owners + 1)


def folded(shell: Shell) -> Run:
    return Run(RUN).fold(shell.entries(RUN))


def last_seq(shell: Shell) -> int:
    with Journal.open(shell.run_dir(RUN).journal, SystemClock(), read_only=True) as journal:
        return journal.last_seq()


async def assert_all_restored(lab: Lab, shell: Shell, moves: Moves) -> None:
    """Assert that every partition is as before the run, and shown as rolled back."""
    (topic,) = {tp.topic for tp in moves}
    found = await described(Connection.to(lab.bootstrap_servers), topic)
    assert {tp: (state.replicas, state.leader) for tp, state in found.items()} == {
        tp: (before, before[0]) for tp, (before, _) in moves.items()
    }
    tracks = folded(shell).tracks.values()
    assert {track.state for track in tracks if track.begun} == {State.ROLLED_BACK}
    assert {track.state for track in tracks if not track.begun} <= {State.STOPPED}
    assert not altered_while_moving(lab, topic)
