"""Runs on a real cluster, cancelled repeatedly at any stage; some engines are killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.cluster.settings import ALL, FOLLOWER_REPLICAS
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import SHAPES, Limits
from support.contract.world import RATE, RealWorld, change, setting, until
from support.kafka.real_runs import (
    RealRun,
    described,
    otherwise_than_expected,
    steps_against_cancels,
)
from support.kafka.slow_topic import BYTES_EACH, altered_while_moving

BROKERS = range(1, 6)
PARTITIONS, SEEDS, AT_ONCE = 6, 60, 6
MOST_EVENTS, KILLED = 14, 0.3
Replicas = tuple[int, ...]


@pytest.fixture
async def slow(world: RealWorld) -> RealWorld:
    """A cluster whose brokers need a second or two for each copy."""
    slow = "300000"
    rates = (setting(ConfigScope.BROKER, str(b), RATE, ConfigOp.SET, slow) for b in BROKERS)
    await change(world, *rates)
    return world


@pytest.mark.soak
async def test_repeatedly_cancelled_partitions_end_as_last_requested(
    lab: Lab, slow: RealWorld, tmp_path: Path
) -> None:
    some = asyncio.Semaphore(AT_ONCE)
    topics = [f"random-{seed}" for seed in range(SEEDS)]

    async def played(seed: int) -> list[str]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        async with some:
            return await story(lab, slow, folder, seed)

    results = await asyncio.gather(*map(played, range(SEEDS)))

    differing = [line for lines in results for line in lines]
    assert not differing, "\n".join(differing)
    assert not altered_while_moving(lab, *topics)


async def story(lab: Lab, world: RealWorld, folder: Path, seed: int) -> list[str]:
    """Play a run that is cancelled a few times; return how it differs from what was asked."""
    chance = random.Random(seed)  # noqa: S311 - a seed
    topic = f"random-{seed}"
    factor = chance.randint(1, 4)
    await world.create_topic(topic, [some_brokers(chance, factor) for _ in range(PARTITIONS)])
    await asyncio.to_thread(fill, world.connection, topic, range(PARTITIONS), bytes_each=BYTES_EACH)
    await change(world, setting(ConfigScope.TOPIC, topic, FOLLOWER_REPLICAS, ConfigOp.SET, ALL))
    targets = {
        TopicPartition(topic, n): some_brokers(chance, chance.choice((factor, factor, 1, 2, 3, 4)))
        for n in range(PARTITIONS)
    }
    limits = Limits(
        replicas=chance.choice((1, 2, None)),
        partitions=chance.choice((1, 2, 4, None)),
        shape=chance.choice(SHAPES),
    )
    run = RealRun(lab, folder, targets, limits, poll_s=0.3)
    await run.start()
    for _ in range(chance.randint(1, 3)):
        async with asyncio.TaskGroup() as group:
            engine = group.create_task(run.execute())
            for _ in range(chance.randint(1, 3)):
                await some_more_events(run, chance.randint(1, MOST_EVENTS), engine)
                run.ask(some_command(chance, targets))
            if chance.random() < KILLED:
                engine.cancel()
    await run.execute()
    found = await described(world.connection, topic)
    listed = await world.reader.list_reassignments()
    return [
        *steps_against_cancels(run.events),
        *otherwise_than_expected(run.run.tracks, found, listed),
    ]


def some_brokers(chance: random.Random, count: int) -> Replicas:
    return tuple(chance.sample(BROKERS, count))


def some_command(chance: random.Random, targets: Iterable[TopicPartition]) -> CancelMoves:
    tps = list(targets)
    kind = chance.choice(
        (CancelKind.STOP, CancelKind.ROLLBACK, CancelKind.ROLLBACK, CancelKind.TRIM)
    )
    return CancelMoves(
        kind, partitions=tuple(chance.sample(tps, chance.choice((1, 3, PARTITIONS))))
    )


async def some_more_events(run: RealRun, count: int, engine: asyncio.Task[object]) -> None:
    """Wait until the run has ``count`` more events, or has ended."""
    enough = run.run.seq + count

    async def has_enough_events() -> bool:
        return run.run.seq >= enough or engine.done()

    await until(has_enough_events, limit_s=90)
