"""However a throttled run on real brokers ends, it restores every setting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ClusterWriter,
    ConfigOp,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.run.states import State
from ktui.kafka.workload import fill
from ktui.lab import control
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from support.contract.world import RealWorld, alter, setting, until
from support.kafka.labs import Outage
from support.kafka.metadata_log import ThrottleLog
from support.kafka.real_cancels import PassingWriter
from support.kafka.real_runs import RealRun, changed, others_set

MIB = 1024 * 1024


async def test_a_refused_alter_and_a_deleted_topic_leave_no_throttle(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    refused, gone = TopicPartition(topic_name, 0), TopicPartition(f"{topic_name}-gone", 0)
    for tp in (refused, gone):
        await world.create_topic(tp.topic, [[1, 2]])
        fill(world.connection, tp.topic, [0], bytes_each=2 * MIB)
    before = await others_set(
        world,
        setting(ConfigScope.TOPIC, refused.topic, FOLLOWER_REPLICAS, ConfigOp.SET, "7:9,3:1"),
        *(setting(ConfigScope.BROKER, b, FOLLOWER_RATE, ConfigOp.SET, "70000000") for b in "45"),
    )
    run = RealRun(
        lab,
        tmp_path,
        {refused: (1, 2, 4), gone: (1, 2, 5)},
        Limits(partitions=2),
        poll_s=0.2,
        throttle=parse_throttle_rates("20MB,5=50kB"),
    )
    run.through = lambda writer: Misdirected(writer, refused)
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: is_in_flight(run, gone))
        await world.delete_topic(gone.topic)

    assert {tp: track.state for tp, track in run.run.tracks.items()} == {
        refused: State.DONE,
        gone: State.TOPIC_GONE,
    }
    del before[f"TOPIC {gone.topic}"]
    assert not changed(world.connection, before)
    listed = ["0:4" in record.listed for record in ThrottleLog(lab, refused.topic).lists]
    assert listed == [False, True, False, True, False]


class Misdirected(PassingWriter):
    """A writer whose first alter of a partition names a missing broker: Kafka refuses it."""

    def __init__(self, writer: ClusterWriter, tp: TopicPartition) -> None:
        super().__init__(writer)
        self._tp = tp
        self._done = False

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        if self._tp in targets and not self._done:
            targets, self._done = {**targets, self._tp: (1, 2, 99)}, True
        return await super().alter_reassignments(
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
            leaves_within_s=leaves_within_s,
        )


async def is_in_flight(run: RealRun, tp: TopicPartition) -> bool:
    """Whether Kafka has accepted the partition's step."""
    track = run.run.tracks_in_flight.get(tp)
    return track is not None and track.step is not None and track.step.answered is not None


async def test_a_broker_down_at_the_end_gets_its_own_rate_back_once_it_returns(
    lab: Lab, world: RealWorld, outage: Outage, topic_name: str, tmp_path: Path
) -> None:
    await world.create_topic(topic_name, [[1, 2]] * 2)
    fill(world.connection, topic_name, range(2), bytes_each=2 * MIB)
    own = setting(ConfigScope.BROKER, "5", FOLLOWER_RATE, ConfigOp.SET, "70000000")
    before = await others_set(world, own)
    well, down = (TopicPartition(topic_name, n) for n in range(2))
    run = RealRun(
        lab,
        tmp_path,
        {well: (1, 2, 4), down: (1, 2, 5)},
        Limits(partitions=2),
        poll_s=0.2,
        throttle=parse_throttle_rates("20MB,5=50kB"),
    )
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: is_in_flight(run, down))
        outage.kill(5)
        await until(lambda: cancelled(world, down))
        await until(lambda: over(run))
        assert run.run.throttled.brokers == [5]
        assert not run.run.ended
        control.start(lab, 5)

    states = {well: State.DONE, down: State.CHANGED_ELSEWHERE}
    assert {tp: track.state for tp, track in run.run.tracks.items()} == states
    assert not changed(world.connection, before)


async def cancelled(world: RealWorld, tp: TopicPartition) -> bool:
    """Cancel a move like another tool; the node asked may be the broker that is down."""
    return (await alter(world, tp, None)).verdict is Verdict.ACCEPTED


async def over(run: RealRun) -> bool:
    """Whether all partitions have ended and one setting is still to be restored."""
    return run.run.over == len(run.run.tracks) and len(run.run.throttled.ours) == 1
