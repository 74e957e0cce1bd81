"""Settings are read now and then, sooner again after a failure, and at once after a change."""

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
from ktui.simulated import events
from support.simulated.polled_cluster import Looking, looking_at_a_move

RATE = "follower.replication.throttled.rate"


def breaks(
    look: Looking, monkeypatch: pytest.MonkeyPatch, until_s: float = math.inf, *, whole: bool = True
) -> list[float]:
    """Have topics' settings fail for a while, by topic or altogether; give when they are asked."""
    asked, reading = [], look.reader.topic_configs

    async def broken(names: Collection[str]) -> TopicConfigsAnswer:
        asked.append(look.clock.monotonic())
        if look.clock.monotonic() >= until_s:
            return await reading(names)
        if whole:
            raise TimedOut("reading topic settings", answer="no answer")
        failures = (Failure(Operation.TOPIC_CONFIGS, "REQUEST_TIMED_OUT", topic=n) for n in names)
        return TopicConfigsAnswer({}, tuple(failures))

    monkeypatch.setattr(look.reader, "topic_configs", broken)
    return asked


def sets(scope: ConfigScope, name: str, key: str, value: str) -> events.OutsideEvent:
    return events.AlterConfigs(
        (ConfigChange(ConfigResource(scope, name), key, ConfigOp.SET, value),)
    )


async def test_sizes_and_settings_are_read_less_often_than_log_ends() -> None:
    async with looking_at_a_move() as look:
        for _ in range(10):
            await look.poll()

        assert look.reader.calls["log_offsets"] == 20
        assert look.reader.calls["log_dirs"] == 4
        assert look.reader.calls["topic_configs"] == 1
        assert look.reader.calls["broker_config"] == 2


@pytest.mark.parametrize("whole", [True, False], ids=["altogether", "by topic"])
async def test_settings_of_topics_that_failed_are_read_in_the_next_poll_or_two(
    monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    async with looking_at_a_move() as look:
        breaks(look, monkeypatch, look.clock.monotonic() + 0.5, whole=whole)
        first = await look.poll()
        assert first.topic_configs == {}
        assert [failure.operation for failure in first.failures] == [Operation.TOPIC_CONFIGS]

        second, third = await look.poll(), await look.poll()

        assert third.topic_configs.keys() == {"orders"}
        assert second.failures == third.failures == ()


@pytest.mark.parametrize("whole", [True, False], ids=["altogether", "by topic"])
async def test_what_fails_again_and_again_is_asked_for_ever_more_slowly(
    monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    async with looking_at_a_move() as look:
        asked = breaks(look, monkeypatch, whole=whole)
        for _ in range(95):
            await look.poll()

        waits = [later - sooner for sooner, later in pairwise(asked)]
        assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


async def test_settings_that_may_not_be_read_are_asked_for_every_half_minute() -> None:
    async with looking_at_a_move() as look:
        await look.do(events.Deny("topic_configs"))
        for _ in range(59):
            observation = await look.poll()

        assert look.reader.calls["topic_configs"] == 2
        assert [(f.topic, f.denied) for f in observation.failures] == [("orders", True)]


async def test_settings_that_fail_when_they_are_read_again_stand_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with looking_at_a_move() as look:
        known = (await look.poll()).topic_configs
        breaks(look, monkeypatch)
        for _ in range(40):
            observation = await look.poll()

        assert observation.topic_configs == known
        assert [failure.operation for failure in observation.failures] == [Operation.TOPIC_CONFIGS]


async def test_settings_that_were_changed_are_read_at_once_when_that_is_told() -> None:
    async with looking_at_a_move() as look:
        before = await look.poll()
        await look.do(
            sets(ConfigScope.TOPIC, "orders", "min.insync.replicas", "2"),
            sets(ConfigScope.BROKER, "4", RATE, "1000000"),
        )
        assert (await look.poll()).topic_configs == before.topic_configs
        look.observer.settings_changed({"orders"}, {4})

        after = await look.poll()
        await look.poll()

        assert after.topic_configs["orders"].min_insync_replicas == 2
        assert after.broker_configs[4].follower_throttle_rate == 1_000_000
        assert before.topic_configs["orders"].min_insync_replicas == 1
        assert look.reader.calls["topic_configs"] == 2
        assert look.reader.calls["broker_config"] == 3


async def test_an_answer_from_before_a_change_is_not_the_last_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with looking_at_a_move() as look:
        reading = look.reader.topic_configs

        async def slowly(names: Collection[str]) -> TopicConfigsAnswer:
            answer = await reading(names)
            await look.clock.sleep(3.0)
            return answer

        monkeypatch.setattr(look.reader, "topic_configs", slowly)
        polling = asyncio.create_task(look.observer.poll())
        await look.clock.advance(1.0)
        await polling
        await look.do(sets(ConfigScope.TOPIC, "orders", "min.insync.replicas", "2"))
        look.observer.settings_changed({"orders"}, ())

        polls = [await look.poll() for _ in range(8)]

        read = [poll.topic_configs["orders"] for poll in polls if poll.topic_configs]
        assert [read[0].min_insync_replicas, read[-1].min_insync_replicas] == [1, 2]
