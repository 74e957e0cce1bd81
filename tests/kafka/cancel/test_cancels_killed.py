"""Engines killed in the middle of a rollback: the next engine finishes it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from itertools import permutations

import pytest

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Cancel, Ended, Owned
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import SHAPES, Shape
from support.cli.shell import LIMIT_S, Shell
from support.contract.world import RealWorld
from support.kafka.real_runs import described
from support.kafka.slow_topic import (
    BYTES_EACH,
    altered_while_moving,
    filled_topic,
    hold,
    let_go,
    slow_down,
)

RUN = "moves"
AT_ONCE, KILLS = 4, 10
MOST_EVENTS, LONG_S = 5, 2.0
Replicas = tuple[int, ...]
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
