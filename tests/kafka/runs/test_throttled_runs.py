"""Throttled runs on real brokers: rates changed midway, kills, and every setting restored."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ClusterWriter,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import Answered, AnyRunEvent, Configure, Ended, Owned, SettingsFound
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.kafka.workload import fill
from ktui.lab import control
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import SHAPES, Limits, Shape
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.cli.shell import LIMIT_S, Shell, ended
from support.contract.world import RealWorld, alter, change, setting, until
from support.kafka.labs import Outage
from support.kafka.metadata_log import ThrottleLog, held_to_the_rules
from support.kafka.real_runs import Copies, RealRun, all_settings, changed, others_set
from support.passing import PassingWriter

MIB = 1024 * 1024
GAINING = (4, 5)
AT_ONCE = 4 * 72 * 1024
"""Bytes that one fetch may bring beyond the rate: 64 KiB and a little of each partition."""
HIGHEST, MUCH_HIGHER, LOW = 400_000, 1_200_000, 50_000
MEMORY_S = 11.0
"""The past that a broker's quota counts: it may have been idle since an earlier test."""
LOOKED_S = 2.5  # in this time the previous rate copies twice what the last one allows
CHANGES = (
    "300kB", "350kB,5=250kB", "250kB,4=150kB", "200kB", "400kB", "100kB,5=400kB",
    "4=390kB,5=399kB", "350kB", "1200kB", "50kB",
)  # fmt: skip


async def test_a_rate_changed_ten_times_mid_run_binds_the_copies_at_once(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    await world.create_topic(topic_name, [[1], [2], [1], [2]])
    fill(world.connection, topic_name, range(4), bytes_each=12 * MIB)
    before = all_settings(world.connection)
    targets = {TopicPartition(topic_name, n): to for n, to in enumerate([(1, 4), (2, 5)] * 2)}
    limits = Limits(replicas=1, partitions=4)
    run = RealRun(
        lab, tmp_path, targets, limits, poll_s=0.2, throttle=parse_throttle_rates(str(HIGHEST))
    )
    await run.start()
    copies = Copies(world.reader, targets)
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await wait_until_copied(copies, 3 * HIGHEST, bytes_s=HIGHEST, remembered_s=MEMORY_S)
        for text in CHANGES[:-1]:
            await change_rate(world, run, text)
        more_than_before = allowed(copies.seconds, HIGHEST) + MIB
        await wait_until_copied(copies, more_than_before, bytes_s=MUCH_HIGHER)
        await change_rate(world, run, CHANGES[-1])
        await assert_hardly_copying(copies)
        run.ask(SetThrottle(NO_THROTTLE))

    assert run.run.counts[State.DONE] == len(targets)
    assert not changed(world.connection, before)


async def wait_until_copied(
    copies: Copies, enough: int, *, bytes_s: int, remembered_s: float = 0.0
) -> None:
    """Wait until each broker has received enough, never faster than the rate allows."""

    async def enough_copied() -> bool:
        found = [await copies.onto(broker) for broker in GAINING]
        most = allowed(copies.seconds + remembered_s, bytes_s)
        assert max(found) <= most, (copies.seconds, found)
        return min(found) >= enough

    await until(enough_copied)


def allowed(seconds: float, bytes_s: int) -> int:
    """Return the bytes a rate allows in some seconds; its quota counts whole seconds."""
    return int((seconds + 1) * bytes_s) + AT_ONCE


async def assert_hardly_copying(copies: Copies) -> None:
    """Assert that brokers far beyond the new rate stand still.

    A broker reports a setting shortly before it applies it.
    """
    began_s, first = copies.seconds, [await copies.onto(broker) for broker in GAINING]

    async def for_a_while() -> bool:
        more = [await copies.onto(b) - had for b, had in zip(GAINING, first, strict=True)]
        assert max(more) <= allowed(copies.seconds - began_s, LOW) + MIB, more
        return copies.seconds - began_s > LOOKED_S

    await until(for_a_while)


async def change_rate(world: RealWorld, run: RealRun, text: str) -> None:
    """Change the rate like another shell, and wait until the brokers have it."""
    rates = parse_throttle_rates(text)
    expected = {broker: str(rates.of(broker)) for broker in GAINING}
    run.ask(SetThrottle(rates))
    await until(lambda: are_in_force(world, expected))


async def test_foreign_throttles_apply_again_when_the_runs_throttle_is_lifted_mid_run(
    lab: Lab, world: RealWorld, topic_name: str, tmp_path: Path
) -> None:
    listed, every = f"{topic_name}-listed", f"{topic_name}-every"
    for topic in (listed, every):
        await world.create_topic(topic, [[1, 2], [2, 3]])
        fill(world.connection, topic, range(2), bytes_each=2 * MIB)
    before = await others_set(
        world,
        setting(ConfigScope.TOPIC, listed, FOLLOWER_REPLICAS, ConfigOp.SET, "7:9,1:2,0:1"),
        setting(ConfigScope.TOPIC, listed, LEADER_REPLICAS, ConfigOp.SET, "0:1"),
        setting(ConfigScope.TOPIC, every, FOLLOWER_REPLICAS, ConfigOp.SET, ALL),
        setting(ConfigScope.BROKER, "4", FOLLOWER_RATE, ConfigOp.SET, "20000"),
        setting(ConfigScope.BROKER, "4", LEADER_RATE, ConfigOp.SET, "90000000"),
    )
    gaining = {0: (1, 2, 4), 1: (2, 3, 5)}
    targets = {TopicPartition(t, n): to for t in (listed, every) for n, to in gaining.items()}
    run = RealRun(
        lab, tmp_path, targets, Limits(), poll_s=0.2, throttle=parse_throttle_rates("10kB")
    )
    await run.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(run.execute())
        await until(lambda: are_in_force(world, {4: "10000", 5: "10000"}))
        run.ask(SetThrottle(NO_THROTTLE))
        await until(lambda: are_in_force(world, {4: "20000", 5: None}))
        assert not changed(world.connection, before)
        assert (
            TopicPartition(every, 0) in run.run.tracks_in_flight
        )  # at the rate of broker 4's owner
        rates = (FOLLOWER_RATE, LEADER_RATE)
        owns = (setting(ConfigScope.BROKER, "4", rate, ConfigOp.DELETE) for rate in rates)
        await change(world, *owns)

    assert run.run.counts[State.DONE] == len(targets)
    removed = {f"BROKER 4 {rate}": None for rate in rates}
    assert changed(world.connection, before, removed) == removed


async def are_in_force(world: RealWorld, rates: Mapping[int, str | None]) -> bool:
    """Whether the gaining brokers report these rates as their own."""
    resources = {b: ConfigResource(ConfigScope.BROKER, str(b)) for b in rates}
    configs = (await world.reader.settings(resources.values(), {FOLLOWER_RATE})).settings
    found = {b: configs[resource].get(FOLLOWER_RATE) for b, resource in resources.items()}
    return {b: None if one is None else one.own for b, one in found.items()} == rates


RUN = "moves"
MOVES = [
    ((1, 2, 3), (4, 2, 5)),
    ((2, 3, 1), (2, 4, 1)),
    ((3, 1, 2), (5, 4, 3)),
    ((1, 3, 2), (1, 3, 2, 4)),
    ((2, 1, 3), (5, 1)),
    ((3, 2, 1), (1, 2, 3)),  # no replica is added
]


def finds(event: AnyRunEvent) -> bool:
    return isinstance(event, SettingsFound)


def throttles(event: AnyRunEvent) -> bool:
    return isinstance(event, Configure) and event.changes[0].op is ConfigOp.APPEND


def answers(event: AnyRunEvent) -> bool:
    return isinstance(event, Answered)


def takes_off(event: AnyRunEvent) -> bool:
    return isinstance(event, Configure) and event.changes[0].op is ConfigOp.SUBTRACT


def puts_back(event: AnyRunEvent) -> bool:
    return isinstance(event, Configure) and event.puts_back


Moment = Callable[[AnyRunEvent], bool]
KILLED = {
    "kip-435, with no request in flight": (Shape.KIP_435, (answers,) * 2),
}
KILLED_MORE = {"gentle, with no request in flight": (Shape.GENTLE, (answers,) * 3)}
KILLED_MID_REQUEST = {  # a request in flight may arrive for up to a minute
    f"{shape.value}, mid-request": (shape, (finds, throttles, answers, takes_off, puts_back))
    for shape in SHAPES
}
CASES = [
    *(pytest.param(*case, id=name) for name, case in KILLED.items()),
    *(
        pytest.param(*case, id=name, marks=pytest.mark.soak)
        for name, case in {**KILLED_MORE, **KILLED_MID_REQUEST}.items()
    ),
]


@pytest.mark.parametrize(("shape", "moments"), CASES)
async def test_a_repeatedly_killed_run_restores_every_setting_at_its_end(
    lab: Lab,
    world: RealWorld,
    shell: Shell,
    topic_name: str,
    shape: Shape,
    moments: Sequence[Moment],
) -> None:
    await world.create_topic(topic_name, [before for before, _ in MOVES])
    fill(world.connection, topic_name, range(len(MOVES)), bytes_each=MIB)
    before = all_settings(world.connection)
    words = ["--shape", shape.value, "--partitions", "2", "--replicas", "1"]
    leaders = ["--throttle-leaders"] if shape is Shape.KIP_435 else []
    follower = begin(shell, topic_name, [to for _, to in MOVES], "2MB", *words, *leaders)

    for moment in moments:
        wait_for_another(shell, moment)
        os.kill(shell.owner(RUN).pid, signal.SIGKILL)
        assert ended(follower).returncode == 1
        follower = shell.begin("resume", RUN, "--headless")
    wait_for_another(shell, lambda event: isinstance(event, Ended))

    done = ended(follower)
    assert done.returncode == 0, done.stderr
    assert not changed(world.connection, before)
    assert held_to_the_rules(ThrottleLog(lab, topic_name), "2000000", most=2) >= 7


async def test_a_signalled_engine_leaves_only_in_flight_replicas_throttled_until_resumed(
    world: RealWorld, shell: Shell, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1, 2]] * 4)
    fill(world.connection, topic_name, [1, 2], bytes_each=3 * MIB)  # 0 is copied at once
    before = all_settings(world.connection)
    targets = [(1, 2, 5), (1, 2, 4), (1, 2, 4), (1, 2, 5)]
    follower = begin(shell, topic_name, targets, "100kB", "--partitions", "2", "--order", "topic")
    shell.wait_for(RUN, Answered, 3)

    os.kill(shell.owner(RUN).pid, signal.SIGTERM)
    left = ended(follower)

    assert left.returncode == 130, left.stderr
    kept = {
        f"BROKER 4 {FOLLOWER_RATE}": "100000",
        f"TOPIC {topic_name} {FOLLOWER_REPLICAS}": "1:4,2:4",
    }
    assert changed(world.connection, before, kept) == kept
    resumed = shell.begin("resume", RUN, "--headless")
    shell.wait_for(RUN, Owned, 2)
    assert shell.ktui("throttle", RUN, "none").returncode == 0
    assert ended(resumed).returncode == 0
    assert not changed(world.connection, before)


def wait_for_another(shell: Shell, moment: Moment) -> None:
    """Wait until the engine reaches such a moment again; for answers, until all are in."""

    def seen() -> tuple[int, bool]:
        entries = shell.entries(RUN)
        run = Run(RUN).fold(entries)
        steps = (track.step for track in run.tracks_in_flight.values())
        out = run.throttled.asked or any(step and step.answered is None for step in steps)
        return sum(moment(entry.event) for entry in entries), not out

    before, _ = seen()

    def again() -> bool:
        count, all_in = seen()
        return count > before and (all_in or moment is not answers)

    assert wait_for(again, seconds=LIMIT_S), shell.log(RUN)


def begin(
    shell: Shell, topic: str, targets: Sequence[Sequence[int]], rate: str, *words: str
) -> Any:
    """Start a throttled run of a topic like an operator."""
    moves = [{"topic": topic, "partition": n, "replicas": list(to)} for n, to in enumerate(targets)]
    paced = ["--headless", "--poll", "200ms", *words, "--allow-replication-factor-change"]
    return shell.begin("start", shell.plan(RUN, moves), "--throttle", rate, *paced)


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
