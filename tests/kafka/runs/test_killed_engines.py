"""Engines killed in the middle of a run, checked against the controller's own record."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from ktui.cluster.partition import Replica, TopicPartition
from ktui.execution.run.events import Ended, Owned, StepBegun, StepOver
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import (
    remove_throttles,
    throttle_followers,
)
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import SHAPES, Limits, Shape
from ktui.pacing.situation import Step
from ktui.pacing.steps import all_steps
from support.cli.shell import Shell, ended
from support.kafka.metadata_log import alters, elected, partition_records
from support.kafka.real_runs import described
from support.kafka.slow_topic import filled_topic
from support.runs.pacing import on_the_way

RUN = "moves"
FEW, MANY = 2, 10  # how often an engine is killed
EVENTS, LONG_S, MOMENT_S = 6, 1.5, 0.3
PARTITIONS = 12
MIB = 1024 * 1024
Process = subprocess.Popen[str]
Replicas = tuple[int, ...]


class Move(NamedTuple):
    before: Replicas
    after: Replicas

    def steps(self, shape: Shape) -> list[Step]:
        return all_steps(on_the_way(*self), Limits(replicas=1, shape=shape))


Moves = dict[TopicPartition, Move]


@pytest.fixture
def moves(lab: Lab, topic_name: str, shell: Shell) -> Iterator[Moves]:
    """Partitions with data and random moves."""
    connection = Connection.to(lab.bootstrap_servers)
    chance = random.Random(PARTITIONS)  # noqa: S311 - a seed
    moves = [Move(*(tuple(chance.sample(range(1, 6), 3)) for _ in "ab")) for _ in range(PARTITIONS)]
    replicas = [move.before for move in moves]
    with filled_topic(connection, topic_name, replicas, bytes_each=MIB):
        yield {TopicPartition(topic_name, n): move for n, move in enumerate(moves)}
        shell.close()


@pytest.fixture
def let_go(lab: Lab, moves: Moves) -> Iterator[Callable[[], None]]:
    """Hold back the last move that adds a replica, and with it the run's end, until called."""
    connection = Connection.to(lab.bootstrap_servers)
    adds = {tp: {*move.after} - {*move.before} for tp, move in moves.items()}
    last = max(tp for tp, brokers in adds.items() if brokers)
    adding = [Replica(last, broker) for broker in adds[last]]
    throttle_followers(connection, adding, bytes_s=1_000)
    yield lambda: remove_throttles(connection, adding)
    remove_throttles(connection, adding)


@pytest.mark.parametrize(
    ("shape", "kills"),
    [
        (Shape.GENTLE, FEW),
        *(pytest.param(shape, MANY, marks=pytest.mark.soak) for shape in SHAPES),
    ],
)
def test_every_step_is_taken_once_however_often_engines_are_killed(
    lab: Lab, shell: Shell, moves: Moves, let_go: Callable[[], None], shape: Shape, kills: int
) -> None:
    chance = random.Random(shape.value)  # noqa: S311 - a seed
    followers = [shell.begin("start", _plan(shell, moves), *_words(shape))]
    for _ in range(kills):
        _kill_engine(shell, followers[-1], chance)
        followers.append(shell.begin("resume", RUN, "--headless"))
        shell.wait_for(RUN, Owned, len(followers))
    followers[-1].kill()  # the engine keeps running
    let_go()
    shell.wait_for(RUN, Ended)

    codes = [ended(follower).returncode for follower in followers]
    assert codes == [1] * kills + [-signal.SIGKILL]
    assert len(shell.events(RUN, Owned)) == kills + 1
    _assert_as_planned(lab, shell, moves, shape)


def _kill_engine(shell: Shell, follower: Process, chance: random.Random) -> None:
    """Kill it within a moment of its next few events, or once it has waited for long."""
    shell.wait_for(RUN, Owned)
    enough = _last_seq(shell) + chance.randint(1, EVENTS)
    wait_for(lambda: _last_seq(shell) >= enough, seconds=LONG_S)
    with suppress(subprocess.TimeoutExpired):
        follower.wait(chance.uniform(0, MOMENT_S))
    os.kill(shell.owner(RUN).pid, signal.SIGKILL)


def _plan(shell: Shell, moves: Moves) -> str:
    return shell.plan(
        RUN,
        [
            {"topic": tp.topic, "partition": tp.partition, "replicas": move.after}
            for tp, move in moves.items()
        ],
    )


def _words(shape: Shape) -> list[str]:
    return ["--headless", "--shape", shape.value, "--partitions", "4", "--poll", "500ms"]


def _last_seq(shell: Shell) -> int:
    return len(shell.entries(RUN))


def _assert_as_planned(lab: Lab, shell: Shell, moves: Moves, shape: Shape) -> None:
    (topic,) = {tp.topic for tp in moves}
    ended_as = asyncio.run(described(Connection.to(lab.bootstrap_servers), topic))
    assert {tp: (state.replicas, state.leader) for tp, state in ended_as.items()} == {
        tp: (move.after, move.after[0]) for tp, move in moves.items()
    }
    records = partition_records(lab, topic)
    requested = alters(records)
    assert not [alter for alter in requested if alter.while_moving]
    for tp, move in moves.items():
        steps = move.steps(shape)
        of_it = [alter.target for alter in requested if alter.tp == tp]
        assert of_it == [step.target for step in steps if step.alters]
        elections = elected(record for record in records if record.tp == tp)
        assert elections == [step.elects for step in steps if step.elects is not None]
        assert _begun(shell, tp) == [step.target for step in steps]


def _begun(shell: Shell, tp: TopicPartition) -> list[Replicas]:
    """Return the steps that were begun, except those whose request had no effect."""
    found: list[Replicas] = []
    for entry in shell.entries(RUN):
        match entry.event:
            case StepBegun() as step if step.tp == tp:
                found.append(step.replicas)
            case StepOver(reached=False) as over if over.tp == tp:
                assert over.reason == "nothing came of the request"
                found.pop()
    return found
