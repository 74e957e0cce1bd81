"""Throttled runs on real brokers: rates changed while copying, and foreign throttles."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.states import State
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.contract.world import RealWorld, change, setting, until
from support.kafka.real_runs import Copies, RealRun, all_settings, changed, others_set

MIB = 1024 * 1024
GAINING = (4, 5)
AT_ONCE = 4 * 72 * 1024
"""Bytes that one fetch may bring beyond the rate: 64 KiB and a little of each partition."""
HIGHEST, MUCH_HIGHER, LOW = 400_000, 1_200_000, 50_000
MEMORY_S = 11.0
"""The past that a broker's quota counts: it may have been idle since an earlier test."""
LOOKED_S = 2.5
"""In this time the previous rate copies twice what the last one allows."""
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
