"""Rollbacks of throttled runs on real brokers: throttled both ways, with no leftovers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.events import Configure, StepBegun
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits, Shape
from ktui.planning.throttle_rates import parse_throttle_rates
from support.contract.world import RealWorld, until
from support.kafka.real_cancels import ORIGINAL, TARGET
from support.kafka.real_runs import RealRun, all_settings, changed, described
from support.kafka.slow_topic import BYTES_EACH

PARTITIONS = 3


@pytest.mark.parametrize(
    "shape", [Shape.KIP_435, pytest.param(Shape.GENTLE, marks=pytest.mark.soak)]
)
async def test_a_throttled_rollback_restores_every_setting(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path, shape: Shape
) -> None:
    await world.create_topic(topic_name, [ORIGINAL] * PARTITIONS)
    await asyncio.to_thread(
        fill, world.connection, topic_name, range(PARTITIONS), bytes_each=BYTES_EACH
    )
    before = all_settings(world.connection)
    tps = [TopicPartition(topic_name, n) for n in range(PARTITIONS)]
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
