"""Settings of a simulated cluster, changed one by one (KIP-339), in Kafka's words."""

from __future__ import annotations

import pytest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.simulated.controller.configs import ALL, Configs, rules_of
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec

ACCEPTED = WriteResult(Verdict.ACCEPTED)
ORDERS = ConfigResource(ConfigScope.TOPIC, "orders")
THIRD = ConfigResource(ConfigScope.BROKER, "3")
EVERY = ConfigResource(ConfigScope.BROKER, "")
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"
MINIMUM = "min.insync.replicas"
FORMAT = (
    f"{FOLLOWERS} must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


def settings(version: str = VERSIONS[-1], **static: str) -> Configs:
    """Return the settings of three brokers and the topic orders."""
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=broker) for broker in (1, 2, 3)),
        broker_configs={key.replace("_", "."): value for key, value in static.items()},
        lag_time_max_s=3,
        auto_leader_rebalance=False,
    )
    return Configs(spec, {"orders"}, rules_of(version))


def alter(
    configs: Configs,
    key: str,
    value: str | None,
    op: ConfigOp = ConfigOp.SET,
    resource: ConfigResource = ORDERS,
) -> WriteResult:
    return configs.alter([ConfigChange(resource, key, op, value)])[resource]


def refusal(code: str, message: str) -> WriteResult:
    return WriteResult(Verdict.REFUSED, code, message)


def test_a_topic_without_settings_has_the_defaults() -> None:
    configs = settings()

    assert configs.topic_config("orders") == TopicConfig()
    assert configs.topic_config("audit") is None
    assert configs.min_isr("orders") == 1
    assert not configs.unclean("orders")
    assert configs.retention_bytes("orders") is None
    assert configs.throttled("orders", LEADERS) == frozenset()


def test_a_broker_without_settings_has_those_of_the_cluster_spec() -> None:
    assert settings().broker_config(2) == BrokerConfig(
        auto_leader_rebalance=False,
        leader_imbalance_check_interval_s=300,
        fetch_backoff_ms=1_000,
        min_insync_replicas=1,
        unclean_leader_election=False,
        replica_lag_time_max_ms=3_000,
    )


def test_a_topic_without_its_own_setting_inherits_that_of_the_brokers() -> None:
    configs = settings(
        min_insync_replicas="2", log_retention_bytes="5000", log_cleanup_policy="compact"
    )
    assert configs.min_isr("orders") == 2
    assert configs.retention_bytes("orders") == 5_000
    assert configs.topic_config("orders") == TopicConfig(min_insync_replicas=2, compacted=True)

    alter(configs, MINIMUM, "3", resource=EVERY)
    assert configs.min_isr("orders") == 3

    alter(configs, MINIMUM, " 1 ")
    alter(configs, "retention.bytes", "-1")
    assert configs.min_isr("orders") == 1
    assert configs.retention_bytes("orders") is None


def test_a_list_setting_grows_shrinks_and_is_deleted() -> None:
    configs = settings()
    for op, value, left in (
        (ConfigOp.SET, "0:1", "0:1"),
        (ConfigOp.APPEND, "0:2,1:2", "0:1,0:2,1:2"),
        (ConfigOp.APPEND, "0:2", "0:1,0:2,1:2"),
        (ConfigOp.SUBTRACT, "0:1,1:2", "0:2"),
        (ConfigOp.SUBTRACT, "7:7", "0:2"),
        (ConfigOp.SUBTRACT, "0:2", ""),
        (ConfigOp.APPEND, "0:3,", "0:3"),
        (ConfigOp.DELETE, None, ""),
    ):
        assert alter(configs, FOLLOWERS, value, op) == ACCEPTED
        assert configs.of_topic("orders", FOLLOWERS, "") == left


def test_subtracting_the_last_item_leaves_an_empty_list_rather_than_no_setting() -> None:
    configs = settings()
    alter(configs, FOLLOWERS, "0:1")

    alter(configs, FOLLOWERS, "0:1", ConfigOp.SUBTRACT)
    assert configs.of(ORDERS) == {FOLLOWERS: ""}

    alter(configs, FOLLOWERS, None, ConfigOp.DELETE)
    assert configs.of(ORDERS) == {}


def test_an_item_appended_to_an_unset_list_follows_its_default() -> None:
    configs = settings()

    alter(configs, "cleanup.policy", "compact", ConfigOp.APPEND)

    assert configs.of(ORDERS) == {"cleanup.policy": "delete,compact"}


def test_a_list_with_blanks_is_accepted_but_items_after_a_blank_cannot_be_subtracted() -> None:
    configs = settings()
    assert alter(configs, FOLLOWERS, "0:1, 0:2") == ACCEPTED
    assert configs.throttled("orders", FOLLOWERS) == frozenset({(0, 1), (0, 2)})

    assert alter(configs, FOLLOWERS, "0:2", ConfigOp.SUBTRACT) == ACCEPTED

    assert configs.of(ORDERS) == {FOLLOWERS: "0:1, 0:2"}


def test_a_star_throttles_every_replica_and_nothing_can_be_appended_to_it() -> None:
    configs = settings()
    alter(configs, FOLLOWERS, "*")
    assert configs.throttled("orders", FOLLOWERS) == ALL

    assert alter(configs, FOLLOWERS, "0:1", ConfigOp.APPEND) == refusal(
        "INVALID_CONFIG", f"Invalid value [*, 0:1] for configuration {FOLLOWERS}: {FORMAT}"
    )
    assert configs.of(ORDERS) == {FOLLOWERS: "*"}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (MINIMUM, "0", f"Invalid value 0 for configuration {MINIMUM}: Value must be at least 1"),
        (MINIMUM, "x", f"Invalid value x for configuration {MINIMUM}: Not a number of type INT"),
        (
            MINIMUM,
            "99999999999",
            f"Invalid value 99999999999 for configuration {MINIMUM}: Not a number of type INT",
        ),
        (
            "cleanup.policy",
            "delete,shred",
            (
                "Invalid value shred for configuration cleanup.policy: String must be one of: "
                "compact, delete"
            ),
        ),
        (
            "unclean.leader.election.enable",
            "maybe",
            (
                "Invalid value maybe for configuration unclean.leader.election.enable: Expected "
                "value to be either true or false"
            ),
        ),
        (
            "retention.bytes",
            "lots",
            "Invalid value lots for configuration retention.bytes: Not a number of type LONG",
        ),
        (FOLLOWERS, "0:a", f"Invalid value [0:a] for configuration {FOLLOWERS}: {FORMAT}"),
        (FOLLOWERS, "0", f"Invalid value [0] for configuration {FOLLOWERS}: {FORMAT}"),
        ("retention.byte", "1", "Unknown topic config name: retention.byte"),
        (
            "remote.storage.enable",
            "true",
            (
                "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                "configured with remote log storage."
            ),
        ),
    ],
)
def test_an_invalid_topic_setting_is_refused_in_kafkas_words(
    key: str, value: str, words: str
) -> None:
    configs = settings()

    assert alter(configs, key, value) == refusal("INVALID_CONFIG", words)
    assert configs.of(ORDERS) == {}


def test_a_topic_can_be_tiered_if_the_brokers_support_it() -> None:
    configs = settings(remote_log_storage_system_enable="true")

    assert alter(configs, "remote.storage.enable", "true") == ACCEPTED

    assert configs.topic_config("orders") == TopicConfig(tiered=True)


def test_appending_to_a_setting_that_is_not_a_list_is_refused() -> None:
    assert alter(settings(), MINIMUM, "2", ConfigOp.APPEND) == refusal(
        "INVALID_CONFIG", f"Can't APPEND to key {MINIMUM} because its type is not LIST."
    )
    assert alter(settings(), RATE, "2", ConfigOp.SUBTRACT, THIRD).verdict is Verdict.REFUSED


def test_a_list_longer_than_a_record_is_refused() -> None:
    assert alter(settings(), FOLLOWERS, ",".join(["0:1"] * 10_000)) == refusal(
        "INVALID_CONFIG",
        "The configuration value cannot be added because it exceeds the maximum value size of "
        "32767 bytes.",
    )


def test_a_change_without_a_value_or_with_a_duplicate_key_is_refused() -> None:
    configs = settings()
    twice = [ConfigChange(ORDERS, FOLLOWERS, ConfigOp.APPEND, part) for part in ("0:1", "0:2")]

    assert alter(configs, RATE, None) == refusal(
        "INVALID_REQUEST", f"Null value not supported for : {RATE}"
    )
    assert configs.alter(twice) == {
        ORDERS: refusal("INVALID_REQUEST", "Error due to duplicate config keys")
    }


def test_settings_of_a_missing_topic_cannot_be_changed() -> None:
    audit = ConfigResource(ConfigScope.TOPIC, "audit")

    assert alter(settings(), FOLLOWERS, "0:1", resource=audit) == refusal(
        "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'audit' does not exist."
    )


def test_the_changes_of_one_resource_are_atomic() -> None:
    configs = settings()

    results = configs.alter(
        [
            ConfigChange(ORDERS, MINIMUM, ConfigOp.SET, "2"),
            ConfigChange(THIRD, RATE, ConfigOp.SET, "1000"),
            ConfigChange(ORDERS, "cleanup.policy", ConfigOp.SET, "shred"),
        ]
    )

    assert [results[ORDERS].verdict, results[THIRD].verdict] == [Verdict.REFUSED, Verdict.ACCEPTED]
    assert configs.topic_config("orders") == TopicConfig()
    assert configs.broker_config(3).follower_throttle_rate == 1_000


def test_a_brokers_own_setting_overrides_that_of_all_brokers() -> None:
    configs = settings()
    alter(configs, RATE, "1000", resource=EVERY)
    alter(configs, RATE, "2000", resource=THIRD)
    alter(configs, "leader.replication.throttled.rate", "0", resource=THIRD)
    alter(configs, "replica.alter.log.dirs.io.max.bytes.per.second", "5", resource=THIRD)

    third = configs.broker_config(3)
    assert third.follower_throttle_rate == 2_000
    assert (third.leader_throttle_rate, third.log_dir_throttle_rate) == (0, 5)
    assert configs.broker_config(1).follower_throttle_rate == 1_000
    alter(configs, RATE, None, ConfigOp.DELETE, THIRD)
    assert configs.broker_config(3).follower_throttle_rate == 1_000


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (RATE, "fast", f"Invalid value fast for configuration {RATE}: Not a number of type LONG"),
        (RATE, "-1", f"Invalid value -1 for configuration {RATE}: Value must be at least 0"),
        (
            "replica.lag.time.max.ms",
            "5",
            "Cannot update these configs dynamically: [replica.lag.time.max.ms]",
        ),
    ],
)
def test_an_invalid_broker_setting_is_an_invalid_request(key: str, value: str, words: str) -> None:
    configs = settings()

    assert alter(configs, key, value, resource=THIRD) == refusal("INVALID_REQUEST", words)
    assert configs.of(THIRD) == {}


def test_settings_of_an_unregistered_broker_cannot_be_changed() -> None:
    nobody = ConfigResource(ConfigScope.BROKER, "9")

    assert alter(settings(), RATE, "1", resource=nobody) == refusal(
        "BROKER_ID_NOT_REGISTERED", "No node with id 9 found."
    )


def test_the_minimum_isr_is_the_same_on_all_brokers_with_elr() -> None:
    configs = settings()
    assert alter(configs, MINIMUM, "2", resource=THIRD) == refusal(
        "INVALID_CONFIG", "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    )
    assert alter(configs, MINIMUM, None, ConfigOp.DELETE, EVERY) == refusal(
        "INVALID_CONFIG",
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    assert alter(configs, MINIMUM, "2", resource=EVERY) == ACCEPTED


def test_each_broker_may_have_its_own_minimum_isr_without_elr() -> None:
    configs = settings("4.0")

    assert alter(configs, MINIMUM, "2", resource=THIRD) == ACCEPTED

    assert configs.broker_config(3).min_insync_replicas == 2
