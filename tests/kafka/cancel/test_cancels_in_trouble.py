"""Partitions cancelled while brokers are down or their topic is deleted, on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.execution.engine.requests import LAST_IN_SYNC
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits
from support.contract.world import RealWorld, change, setting, until
from support.kafka.labs import Outage
from support.kafka.real_runs import RealRun, described
from support.kafka.slow_topic import BYTES_EACH, hold, let_go, slow_down

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
