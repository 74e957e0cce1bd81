"""Settings of topics and brokers, read and changed one by one (KIP-339)."""

from __future__ import annotations

import pytest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import Operation
from ktui.cluster.ports import (
    ConfigOp,
    ConfigResource,
    ConfigScope,
    ConfigSource,
    Setting,
    SettingsAnswer,
    Verdict,
)
from support.contract.world import RATE, THROTTLED, World, change, setting, until


@pytest.fixture
async def topic(world: World, topic_name: str) -> str:
    await world.create_topic(topic_name, [[1, 2, 3]])
    return topic_name


async def config_of(world: World, topic: str) -> TopicConfig:
    return (await world.reader.topic_configs([topic])).configs[topic]


async def throttled(world: World, topic: str, expected: str) -> None:
    """Wait until the broker asked shows these throttled replicas."""

    async def shown() -> bool:
        return (await config_of(world, topic)).follower_throttled_replicas == expected

    await until(shown, clock=world.clock)


async def test_a_new_topic_has_the_defaults(world: World, topic: str) -> None:
    assert await config_of(world, topic) == TopicConfig()


async def test_topic_settings_relevant_to_a_move_are_read(world: World, topic: str) -> None:
    await change(
        world,
        setting(ConfigScope.TOPIC, topic, "min.insync.replicas", ConfigOp.SET, "2"),
        setting(ConfigScope.TOPIC, topic, "cleanup.policy", ConfigOp.SET, "compact,delete"),
    )

    async def seen() -> bool:
        return await config_of(world, topic) == TopicConfig(min_insync_replicas=2, compacted=True)

    assert await until(seen, clock=world.clock)


async def test_a_list_setting_grows_shrinks_and_is_deleted(world: World, topic: str) -> None:
    for op, value, left in (
        (ConfigOp.SET, "0:1", "0:1"),
        (ConfigOp.APPEND, "0:2", "0:1,0:2"),
        (ConfigOp.APPEND, "0:2", "0:1,0:2"),
        (ConfigOp.SUBTRACT, "0:1", "0:2"),
        (ConfigOp.DELETE, None, ""),
    ):
        await change(world, setting(ConfigScope.TOPIC, topic, THROTTLED, op, value))
        await throttled(world, topic, left)


async def test_each_resource_of_a_change_has_its_own_answer(world: World, topic: str) -> None:
    good = setting(ConfigScope.TOPIC, topic, "min.insync.replicas", ConfigOp.SET, "2")
    bad = setting(ConfigScope.TOPIC, f"{topic}-not-there", THROTTLED, ConfigOp.SET, "0:1")
    unknown = setting(ConfigScope.BROKER, "3", RATE, ConfigOp.SET, "fast")

    results = await world.writer.alter_configs([good, bad, unknown])

    assert results[good.resource].verdict is Verdict.ACCEPTED
    assert (results[bad.resource].verdict, results[bad.resource].code) == (
        Verdict.REFUSED,
        "UNKNOWN_TOPIC_OR_PARTITION",
    )
    assert results[unknown.resource].verdict is Verdict.REFUSED
    assert results[unknown.resource].code
    assert results[unknown.resource].message


async def test_the_changes_of_one_resource_are_atomic(world: World, topic: str) -> None:
    results = await world.writer.alter_configs(
        [
            setting(ConfigScope.TOPIC, topic, "min.insync.replicas", ConfigOp.SET, "2"),
            setting(ConfigScope.TOPIC, topic, "cleanup.policy", ConfigOp.SET, "shred"),
        ]
    )

    assert results[ConfigResource(ConfigScope.TOPIC, topic)].verdict is Verdict.REFUSED
    assert await config_of(world, topic) == TopicConfig()


async def test_a_request_that_changes_a_setting_twice_is_refused(world: World, topic: str) -> None:
    results = await world.writer.alter_configs(
        [
            setting(ConfigScope.TOPIC, topic, THROTTLED, ConfigOp.APPEND, "0:1"),
            setting(ConfigScope.TOPIC, topic, THROTTLED, ConfigOp.APPEND, "0:2"),
        ]
    )

    answer = results[ConfigResource(ConfigScope.TOPIC, topic)]
    assert answer.verdict is Verdict.REFUSED
    assert answer.code == "INVALID_REQUEST"
    assert await config_of(world, topic) == TopicConfig()


async def test_throttles_of_several_brokers_are_set_in_one_call_and_read_back(
    world: World,
) -> None:
    await change(
        world,
        *(
            setting(ConfigScope.BROKER, str(broker), RATE, ConfigOp.SET, str(broker * 1_000_000))
            for broker in range(1, 6)
        ),
    )
    for broker in range(1, 6):

        async def shown(broker: int = broker) -> bool:
            config = await world.reader.broker_config(broker)
            return config.follower_throttle_rate == broker * 1_000_000

        assert await until(shown, clock=world.clock)

    await change(world, setting(ConfigScope.BROKER, "2", RATE, ConfigOp.DELETE))

    async def lifted() -> bool:
        return (await world.reader.broker_config(2)).follower_throttle_rate is None

    assert await until(lifted, clock=world.clock)


async def test_a_broker_reports_the_settings_relevant_to_a_move(world: World) -> None:
    config = await world.reader.broker_config(4)

    assert config == BrokerConfig(
        auto_leader_rebalance=config.auto_leader_rebalance,
        leader_imbalance_check_interval_s=300,
        fetch_backoff_ms=1_000,
        min_insync_replicas=1,
        unclean_leader_election=False,
        replica_lag_time_max_ms=config.replica_lag_time_max_ms,
    )
    assert config.auto_leader_rebalance is not None
    assert config.replica_lag_time_max_ms is not None


async def test_an_absent_topic_is_a_failure_beside_the_other_answers(
    world: World, topic: str
) -> None:
    absent = f"{topic}-not-there"

    reported = await world.reader.topic_configs([absent, topic])

    assert reported.configs.keys() == {topic}
    (failure,) = reported.failures
    assert (failure.operation, failure.topic) == (Operation.TOPIC_CONFIGS, absent)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in failure.answer
    assert not failure.denied


LAG_TIME, BIGGEST = "replica.lag.time.max.ms", "message.max.bytes"


def topic_of(name: str) -> ConfigResource:
    return ConfigResource(ConfigScope.TOPIC, name)


def broker_of(broker: int | None) -> ConfigResource:
    return ConfigResource(ConfigScope.BROKER, "" if broker is None else str(broker))


async def settled(world: World, expected_answer: SettingsAnswer, *names: str) -> None:
    """Wait until the settings are exactly these, even for deleted resources."""

    async def reported() -> bool:
        return (
            await world.reader.settings(expected_answer.settings.keys(), names) == expected_answer
        )

    assert await until(reported, clock=world.clock)


async def test_own_topic_settings_are_distinguished_from_defaults(world: World, topic: str) -> None:
    default = {topic_of(topic): {THROTTLED: Setting("", ConfigSource.DEFAULT)}}
    await settled(world, SettingsAnswer(default), THROTTLED)
    for op, value, left in (
        (ConfigOp.SET, "0:9, 0:8", "0:9,0:8"),  # returned without the blank, which is still stored
        (ConfigOp.SUBTRACT, "0:8", "0:9,0:8"),
        (ConfigOp.APPEND, "0:1", "0:9,0:8,0:1"),
        (ConfigOp.SET, "*", "*"),
        (ConfigOp.SET, "0:1", "0:1"),
        (ConfigOp.SUBTRACT, "0:1", ""),
    ):
        await change(world, setting(ConfigScope.TOPIC, topic, THROTTLED, op, value))
        own = {topic_of(topic): {THROTTLED: Setting(left, ConfigSource.OWN)}}
        await settled(world, SettingsAnswer(own), THROTTLED)
    await change(world, setting(ConfigScope.TOPIC, topic, THROTTLED, ConfigOp.DELETE))

    await settled(world, SettingsAnswer(default), THROTTLED)


async def test_reading_without_names_returns_every_explicit_setting(
    world: World, topic: str
) -> None:
    await settled(world, SettingsAnswer({topic_of(topic): {}, broker_of(3): {}}))
    await change(
        world,
        setting(ConfigScope.TOPIC, topic, THROTTLED, ConfigOp.SET, "0:1"),
        setting(ConfigScope.TOPIC, topic, "retention.ms", ConfigOp.SET, "7200000"),
        setting(ConfigScope.BROKER, "3", RATE, ConfigOp.SET, "5000000"),
    )

    own = {
        topic_of(topic): {
            THROTTLED: Setting("0:1", ConfigSource.OWN),
            "retention.ms": Setting("7200000", ConfigSource.OWN),
        },
        broker_of(3): {RATE: Setting("5000000", ConfigSource.OWN)},
    }
    await settled(world, SettingsAnswer(own))


async def test_each_broker_reports_its_own_rate_or_none(world: World) -> None:
    rates = (
        setting(ConfigScope.BROKER, str(b), RATE, ConfigOp.SET, str(b * 1_000_000)) for b in (2, 5)
    )
    await change(world, *rates)

    reported: dict[ConfigResource, dict[str, Setting]] = {broker_of(b): {} for b in (1, 3, 4)}
    for b in (2, 5):
        reported[broker_of(b)] = {RATE: Setting(str(b * 1_000_000), ConfigSource.OWN)}
    await settled(world, SettingsAnswer(reported), RATE)


async def test_settings_from_a_brokers_file_are_distinguished_from_cluster_wide_ones(
    world: World,
) -> None:
    everybody = ConfigScope.BROKER, "", BIGGEST
    await change(world, setting(*everybody, ConfigOp.SET, "1048600"))
    try:

        async def reported() -> bool:
            answer = await world.reader.settings([broker_of(4)], [LAG_TIME, BIGGEST])
            of_4 = answer.settings[broker_of(4)]
            assert of_4[LAG_TIME].source is ConfigSource.FILE
            assert of_4[LAG_TIME].own is None
            return of_4[BIGGEST] == Setting("1048600", ConfigSource.EVERY_BROKER)

        assert await until(reported, clock=world.clock)
    finally:
        await change(world, setting(*everybody, ConfigOp.DELETE))


async def test_a_missing_resource_does_not_affect_the_others(world: World, topic: str) -> None:
    gone, nobody = topic_of(f"{topic}-not-there"), broker_of(99)

    answer = await world.reader.settings([nobody, gone, topic_of(topic), broker_of(1)], [THROTTLED])

    assert answer.settings == {
        topic_of(topic): {THROTTLED: Setting("", ConfigSource.DEFAULT)},
        broker_of(1): {},
    }
    assert answer.failures.keys() == {gone, nobody}
    assert answer.failures[gone].startswith("UNKNOWN_TOPIC_OR_PARTITION")
    assert answer.failures[nobody]


async def test_a_list_is_returned_without_the_blanks_that_it_is_stored_with(
    world: World, topic: str
) -> None:
    await change(world, setting(ConfigScope.TOPIC, topic, THROTTLED, ConfigOp.SET, "0:1, 0:2"))
    resource = ConfigResource(ConfigScope.TOPIC, topic)

    reported = (await world.reader.settings([resource], [THROTTLED])).settings[resource]
    await change(world, setting(ConfigScope.TOPIC, topic, THROTTLED, ConfigOp.SUBTRACT, "0:2"))
    kept = (await world.reader.settings([resource], [THROTTLED])).settings[resource]
    await change(world, setting(ConfigScope.TOPIC, topic, THROTTLED, ConfigOp.SUBTRACT, " 0:2"))
    left = (await world.reader.settings([resource], [THROTTLED])).settings[resource]

    assert [each[THROTTLED].own for each in (reported, kept, left)] == ["0:1,0:2", "0:1,0:2", "0:1"]


async def test_reading_settings_of_no_resources_returns_none(world: World) -> None:
    assert await world.reader.settings([]) == SettingsAnswer({})
