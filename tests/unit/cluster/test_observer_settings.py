"""The observer: settings, throttles, and what is read only while somebody looks."""

import asyncio
import math
from collections.abc import Collection
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.errors import Failure, Operation, TimedOut
from ktui.cluster.observer import Interest
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    TopicConfigsAnswer,
)
from ktui.cluster.settings import ALL, list_includes, parse_throttled_list, throttled_entry
from ktui.simulated import layout
from support.simulated.moving_clusters import cordon
from support.simulated.observations import (
    EVERYONE,
    MESSAGES,
    ORDERS,
    PATIENCE_S,
    Looking,
    a_topic,
    looking,
    looking_at_a_move,
)

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


async def test_chosen_topics_are_observed_with_all_partitions() -> None:
    async with looking(a_topic("orders", *[(1, 2, 3)] * 3), a_topic("audit", (1, 2))) as watcher:
        observation = await watcher.poll(Interest(topics=frozenset({"orders"})))

        assert len(observation.partitions) == 3


async def test_chosen_partitions_are_polled_without_the_rest_of_their_topics() -> None:
    chosen = TopicPartition("audit", 1)
    async with looking(a_topic("orders", (1, 2)), a_topic("audit", *[(3, 4)] * 5)) as watcher:
        observation = await watcher.poll(Interest(partitions=frozenset({chosen})))

        assert observation.partitions.keys() == {chosen}
        assert observation.partitions[chosen].replicas == (3, 4)
        assert observation.topic_configs.keys() == {"audit"}
        assert watcher.reader.asked_offsets == []


async def test_a_missing_chosen_partition_is_absent() -> None:
    chosen = {TopicPartition("orders", 7), TopicPartition("no-such-topic", 0)}
    async with looking(a_topic("orders", (1, 2))) as watcher:
        observation = await watcher.poll(Interest(partitions=frozenset(chosen)))

        assert observation.absent == chosen
        assert observation.partitions == {}


async def test_the_partitions_of_a_chosen_topic_are_absent_once_it_is_deleted() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    both = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    async with looking(a_topic("orders", (1, 2), (2, 3))) as watcher:
        assert (await watcher.poll(interest)).absent == frozenset()
        await watcher.do(layout.DeleteTopic("orders"), then_wait_s=1.0)

        assert (await watcher.poll(interest)).absent == both


async def test_a_chosen_topic_recreated_smaller_has_its_other_partitions_absent() -> None:
    interest = Interest(topics=frozenset({"orders"}))
    async with looking(a_topic("orders", (1, 2), (2, 3))) as watcher:
        await watcher.poll(interest)
        again = layout.CreateTopic(a_topic("orders", (1, 2)))
        await watcher.do(layout.DeleteTopic("orders"), again, then_wait_s=1.0)

        observation = await watcher.poll(interest)

        assert observation.absent == {TopicPartition("orders", 1)}
        assert observation.partitions.keys() == {ORDERS}


async def test_log_dirs_alone_are_read_from_every_broker_and_no_settings_of_them() -> None:
    async with looking(a_topic("orders", (1, 2))) as watcher:
        await watcher.do(cordon(4))

        observation = await watcher.poll(Interest(log_dirs=True))

        assert {*observation.log_dirs} == {*EVERYONE}
        assert observation.cordoned == {4}
        assert observation.closed == {4}
        assert observation.broker_configs == {}


async def test_the_sizes_of_replicas_are_read_as_soon_as_they_are_being_copied() -> None:
    interest = Interest(log_dirs=True)
    async with looking(a_topic("orders", (1, 2))) as watcher:
        await watcher.poll(interest)
        await watcher.do(layout.Alter({ORDERS: (3, 2)}), then_wait_s=0.5)

        observation = await watcher.poll(interest)

        assert {replica.broker for replica in observation.sizes} >= {1, 3}


async def test_a_slow_broker_affects_only_its_own_figures_and_is_named() -> None:
    async with looking_at_a_move() as watcher:
        before = await watcher.poll()
        await watcher.do(layout.Hang(4), layout.Append(ORDERS, 100), then_wait_s=1.0)

        observation = await watcher.poll()

        assert observation.ends[Replica(ORDERS, 2)].value == MESSAGES + 100
        assert observation.ends[Replica(ORDERS, 4)].value == 500
        assert observation.ends[Replica(ORDERS, 4)].at_s == before.monotonic_s
        assert observation.took_s == PATIENCE_S
        (failure,) = observation.failures
        assert (failure.operation, failure.broker) == (Operation.LOG_ENDS, 4)


async def test_a_slow_broker_is_not_asked_again_until_it_has_answered() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Hang(4))
        for _ in range(3):
            await watcher.poll()

        assert watcher.reader.asked(4) == 1

        await watcher.do(layout.Resume(4), then_wait_s=1.0)
        observation = await watcher.poll()

        assert observation.failures == ()
        assert watcher.reader.asked(4) == 2


async def test_a_poll_does_not_wait_for_a_broker_that_hung_in_an_earlier_one() -> None:
    async with looking_at_a_move(patience_s=1.0) as watcher:
        await watcher.do(layout.Hang(4))
        first, second = await watcher.poll(), await watcher.poll()

        assert (first.took_s, second.took_s) == (1.0, 0.0)
        assert (Operation.LOG_ENDS, 4) in [(f.operation, f.broker) for f in second.failures]
        assert {f.broker for f in second.failures} == {4}


async def test_an_answer_between_two_polls_carries_its_time_of_arrival() -> None:
    async with looking_at_a_move() as watcher:
        await watcher.do(layout.Hang(4))
        await watcher.poll()
        await watcher.do(layout.Resume(4), then_wait_s=2.0)
        await watcher.do(layout.Hang(4))

        came_at_s = (await watcher.poll()).ends[Replica(ORDERS, 4)].at_s

        assert 6.0 < came_at_s < 8.0


@pytest.mark.parametrize("version", ["3.9", "4.3"])
async def test_a_dead_broker_is_not_asked(version: str) -> None:
    async with looking_at_a_move(version=version) as watcher:
        await watcher.do(layout.Kill(4), then_wait_s=10.0)

        observation = await watcher.poll()

        assert [broker for broker, _ in watcher.reader.asked_offsets] == [2]
        assert not observation.alive(4)
        assert observation.failures == ()


IDS = st.integers(0, 100_000)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", set()),
        (" ", set()),
        (",", set()),
        ("0:1", {"0:1"}),
        ("0:1,12:104", {"0:1", "12:104"}),
        ("0:1 , 0:2,\t3:4 ", {"0:1", "0:2", "3:4"}),
        ("0:1,,0:1", {"0:1"}),
        ("*", {ALL}),
    ],
)
def test_a_list_is_read_as_kafka_reads_it(text: str, read: set[str]) -> None:
    assert parse_throttled_list(text) == read


@given(st.sets(st.tuples(IDS, IDS)))
def test_a_throttled_list_includes_only_the_replicas_it_names(
    replicas: set[tuple[int, int]],
) -> None:
    text = ",".join(throttled_entry(*each) for each in replicas)

    assert all(list_includes(text, *each) for each in replicas)
    for partition, broker in replicas:
        assert list_includes(text, broker, partition) == ((broker, partition) in replicas)
        assert list_includes(text, partition, broker + 1) == ((partition, broker + 1) in replicas)


@given(IDS, IDS)
def test_a_list_of_all_includes_every_replica_and_an_empty_one_none(
    partition: int, broker: int
) -> None:
    assert list_includes(ALL, partition, broker)
    assert not list_includes("", partition, broker)
