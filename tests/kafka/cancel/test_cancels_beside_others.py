"""Rollbacks while Kafka's own tool moves partitions, some of them ours, without a fight."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind, State
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits
from support.contract.world import RealWorld, until
from support.kafka.labs import command
from support.kafka.metadata_log import alters, dumped, partitions_among
from support.kafka.real_cancels import ORIGINAL, TARGET
from support.kafka.real_runs import RealRun, described
from support.kafka.slow_topic import BYTES_EACH, hold, let_go, slow_down

TAKEN_OVER = (
    "someone else reassigned it to brokers 5, 4, 3",
    "someone else gave it brokers 5, 4, 3",
)
"""The reason after the first poll, while the partition moves or once it has ended."""

Replicas = tuple[int, ...]


async def make_topic(world: RealWorld, topic: str, partitions: int) -> list[TopicPartition]:
    await world.create_topic(topic, [ORIGINAL] * partitions)
    await asyncio.to_thread(fill, world.connection, topic, range(partitions), bytes_each=BYTES_EACH)
    return [TopicPartition(topic, n) for n in range(partitions)]


async def others_move(lab: Lab, folder: Path, targets: Mapping[TopicPartition, Replicas]) -> None:
    """Reassign partitions with Kafka's own tool, including those that move already."""
    plan = folder / "others.json"
    moves = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(to)}
        for tp, to in targets.items()
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    words = ["--reassignment-json-file", str(plan), "--execute", "--additional"]
    done = await asyncio.to_thread(
        subprocess.run, command(lab, *words), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def wait_until_ended(world: RealWorld, partitions: Mapping[TopicPartition, Replicas]) -> None:
    """Wait until the foreign reassignments are over, and check that they reached their targets."""

    async def unlisted() -> bool:
        return not (await world.reader.list_reassignments()).keys() & partitions.keys()

    await until(unlisted)
    for topic in {tp.topic for tp in partitions}:
        found = await described(world.connection, topic)
        for tp in partitions.keys() & found.keys():
            assert (tp, found[tp].replicas) == (tp, partitions[tp])


async def in_states(run: RealRun, expected: Mapping[TopicPartition, State]) -> bool:
    tracks = run.run.tracks
    return bool(tracks) and all(tracks[tp].state is state for tp, state in expected.items())


async def test_a_rollback_of_all_leaves_foreign_and_taken_over_partitions_alone(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    await slow_down(world, 4, 5)
    ours = flying, taken, following, theirs_too, queued = await make_topic(world, topic_name, 5)
    (theirs,) = await make_topic(world, f"{topic_name}-theirs", 1)
    await hold(world, topic_name, *(f"{n}:{b}" for n in range(5) for b in (4, 5)))
    await hold(world, theirs.topic, "0:4", "0:5")
    limits = Limits(replicas=1, partitions=2)
    run = RealRun(lab, tmp_path, dict.fromkeys(ours, TARGET), limits, poll_s=0.3)
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: in_states(run, dict.fromkeys((flying, taken), State.ADDING)))
        expected = {taken: (5, 1, 3), theirs_too: (3, 4, 1), theirs: (4, 5, 2)}
        await others_move(lab, tmp_path, expected)
        await until(lambda: in_states(run, {theirs_too: State.FOREIGN, following: State.ADDING}))
        run.ask(CancelMoves(CancelKind.ROLLBACK))

    states = {tp: run.run.tracks[tp].state for tp in ours}
    assert states == {
        flying: State.ROLLED_BACK,
        taken: State.CHANGED_ELSEWHERE,
        following: State.ROLLED_BACK,
        theirs_too: State.STOPPED,
        queued: State.STOPPED,
    }
    assert run.run.tracks[taken].reason == "someone else reassigned it to brokers 5, 1, 3"
    assert expected.keys() <= (await world.reader.list_reassignments()).keys()
    await let_go(world, topic_name, theirs.topic)
    await wait_until_ended(
        world, {**expected, **dict.fromkeys((flying, following, queued), ORIGINAL)}
    )
    records = list(dumped(lab))
    requested = [
        a for t in (topic_name, theirs.topic) for a in alters(partitions_among(records, t))
    ]
    assert [alter.target for alter in requested if alter.tp == taken] == [(*ORIGINAL, 4), (5, 1, 3)]
    for tp in (theirs_too, theirs):
        assert [alter.target for alter in requested if alter.tp == tp] == [expected[tp]]


async def test_a_partition_taken_over_during_its_rollback_is_left_and_the_rest_resumes(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    ours = taken, back = await make_topic(world, topic_name, 2)
    limits = Limits(replicas=1, partitions=2)
    run = RealRun(lab, tmp_path, dict.fromkeys(ours, TARGET), limits, poll_s=0.3)
    await run.to_its_end()
    await slow_down(world, 2)
    await hold(world, topic_name, "0:2", "1:2")
    run.ask(CancelMoves(CancelKind.ROLLBACK))
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: are_going_back(run))
        await others_move(lab, tmp_path, {taken: (5, 4, 3)})
        await until(lambda: in_states(run, {taken: State.CHANGED_ELSEWHERE}))
        await let_go(world, topic_name)

    assert run.run.tracks[taken].reason in TAKEN_OVER
    assert run.run.tracks[back].state is State.ROLLED_BACK
    await wait_until_ended(world, {taken: (5, 4, 3), back: ORIGINAL})


async def are_going_back(run: RealRun) -> bool:
    flying = run.run.tracks_in_flight.values()
    return len(flying) == 2 and all(
        track.step is not None and track.step.answered is not None for track in flying
    )
