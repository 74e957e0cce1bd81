"""Settings are read now and then, sooner after a failure, and at once after a change."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from itertools import pairwise

import pytest

from ktui.cluster.errors import Failure, Operation, TimedOut
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    TopicConfigsAnswer,
)
from ktui.simulated import layout
from support.simulated.polled_cluster import Looking, looking_at_a_move

RATE = "follower.replication.throttled.rate"


def break_topic_configs(
    watcher: Looking,
    monkeypatch: pytest.MonkeyPatch,
    until_s: float = math.inf,
    *,
    whole: bool = True,
) -> list[float]:
    """Make topic settings fail for a while, by topic or altogether; return the request times."""
    requested_at, reading = [], watcher.reader.topic_configs

    async def broken(names: Collection[str]) -> TopicConfigsAnswer:
        requested_at.append(watcher.clock.monotonic())
        if watcher.clock.monotonic() >= until_s:
            return await reading(names)
        if whole:
            raise TimedOut("reading topic settings", answer="no answer")
        failures = (Failure(Operation.TOPIC_CONFIGS, "REQUEST_TIMED_OUT", topic=n) for n in names)
        return TopicConfigsAnswer({}, tuple(failures))

    monkeypatch.setattr(watcher.reader, "topic_configs", broken)
    return requested_at


def sets(scope: ConfigScope, name: str, key: str, value: str) -> layout.OutsideEvent:
    return layout.AlterConfigs(
        (ConfigChange(ConfigResource(scope, name), key, ConfigOp.SET, value),)
    )


async def test_sizes_and_settings_are_read_less_often_than_log_ends() -> None:
    async with looking_at_a_move() as watcher:
        for _ in range(10):
            await watcher.poll()

        assert watcher.reader.calls["log_offsets"] == 20
        assert watcher.reader.calls["log_dirs"] == 4
        assert watcher.reader.calls["topic_configs"] == 1
        assert watcher.reader.calls["broker_config"] == 2


@pytest.mark.parametrize("whole", [True, False], ids=["altogether", "by topic"])
async def test_topic_settings_that_failed_are_read_within_the_next_two_polls(
    monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    async with looking_at_a_move() as watcher:
        break_topic_configs(watcher, monkeypatch, watcher.clock.monotonic() + 0.5, whole=whole)
        first = await watcher.poll()
        assert first.topic_configs == {}
        assert [failure.operation for failure in first.failures] == [Operation.TOPIC_CONFIGS]

        second, third = await watcher.poll(), await watcher.poll()

        assert third.topic_configs.keys() == {"orders"}
        assert second.failures == third.failures == ()


@pytest.mark.parametrize("whole", [True, False], ids=["altogether", "by topic"])
async def test_repeated_failures_are_retried_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    async with looking_at_a_move() as watcher:
        requested_at = break_topic_configs(watcher, monkeypatch, whole=whole)
        for _ in range(95):
            await watcher.poll()

        waits = [later - sooner for sooner, later in pairwise(requested_at)]
        assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


async def test_denied_settings_are_requested_every_half_minute() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Deny("topic_configs"))
        for _ in range(59):
            observation = await watcher.poll()

        assert watcher.reader.calls["topic_configs"] == 2
        assert [(f.topic, f.denied) for f in observation.failures] == [("orders", True)]


async def test_settings_that_fail_to_be_reread_keep_their_last_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with looking_at_a_move() as watcher:
        known = (await watcher.poll()).topic_configs
        break_topic_configs(watcher, monkeypatch)
        for _ in range(40):
            observation = await watcher.poll()

        assert observation.topic_configs == known
        assert [failure.operation for failure in observation.failures] == [Operation.TOPIC_CONFIGS]


async def test_announced_changes_of_settings_are_read_at_once() -> None:
    async with looking_at_a_move() as watcher:
        before = await watcher.poll()
        await watcher.do(
            sets(ConfigScope.TOPIC, "orders", "min.insync.replicas", "2"),
            sets(ConfigScope.BROKER, "4", RATE, "1000000"),
        )
        assert (await watcher.poll()).topic_configs == before.topic_configs
        watcher.observer.settings_changed({"orders"}, {4})

        after = await watcher.poll()
        await watcher.poll()

        assert after.topic_configs["orders"].min_insync_replicas == 2
        assert after.broker_configs[4].follower_throttle_rate == 1_000_000
        assert before.topic_configs["orders"].min_insync_replicas == 1
        assert watcher.reader.calls["topic_configs"] == 2
        assert watcher.reader.calls["broker_config"] == 3


async def test_a_late_answer_from_before_a_change_is_superseded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with looking_at_a_move() as watcher:
        reading = watcher.reader.topic_configs

        async def slowly(names: Collection[str]) -> TopicConfigsAnswer:
            answer = await reading(names)
            await watcher.clock.sleep(3.0)
            return answer

        monkeypatch.setattr(watcher.reader, "topic_configs", slowly)
        polling = asyncio.create_task(watcher.observer.poll())
        await watcher.clock.advance(1.0)
        await polling
        await watcher.do(sets(ConfigScope.TOPIC, "orders", "min.insync.replicas", "2"))
        watcher.observer.settings_changed({"orders"}, ())

        polls = [await watcher.poll() for _ in range(8)]

        read = [poll.topic_configs["orders"] for poll in polls if poll.topic_configs]
        assert [read[0].min_insync_replicas, read[-1].min_insync_replicas] == [1, 2]
