"""Dynamic settings of topics and brokers, changed incrementally (KIP-339)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import KafkaError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigResource,
    ConfigScope,
    ConfigSource,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import (
    CORDONED,
    EVERY,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    LOG_DIRS,
    REPLICAS,
    broker_resource,
    cordoned_paths,
    group_by_resource,
    split_paths,
    topic_resource,
)
from ktui.simulated.controller import schema
from ktui.simulated.controller.schema import ConfigRefused, ConfigValues, apply_changes
from ktui.simulated.layout import VERSIONS, ClusterSpec


def refused(code: str, message: str) -> WriteResult:
    """Return a refusal, with Kafka's name for the error."""
    return WriteResult(Verdict.REFUSED, code, message)


DONE = WriteResult(Verdict.ACCEPTED)

TOO_MANY = WriteResult(Verdict.UNKNOWN, KafkaError.UNKNOWN_SERVER_ERROR)
"""The answer beyond the limit of records of one request; Kafka sends no message with it."""

NOTHING_TO_CANCEL = refused(KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "")
"""Sent without a message, because every Kafka client has a standard message for this error."""

TOO_LARGE = refused(
    KafkaError.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
)

TOO_MANY_ADDED = refused(
    KafkaError.POLICY_VIOLATION, "Excessively large number of additional partitions per request."
)

NOT_NEEDED = WriteResult(
    Verdict.ACCEPTED,
    KafkaError.ELECTION_NOT_NEEDED,
    "Leader election not needed for topic partition.",
)

NOT_AVAILABLE = refused(
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
)

NO_SUCH_TOPIC = refused(
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)

NO_SUCH_TOPIC_TO_EXTEND = refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "")


def nothing_to_alter(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to alter a partition that does not exist."""
    words = f"Unable to find partition {tp.topic}:{tp.partition}."
    if not topic_there:
        words = f"Unable to find a topic named {tp.topic}."
    return refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, words)


def nothing_to_elect(tp: TopicPartition, *, topic_there: bool) -> WriteResult:
    """Refuse to elect a leader for a partition that does not exist."""
    words = f"No such partition as {tp}" if topic_there else f"No such topic as {tp.topic}"
    return refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, words)


def not_registered(broker: int) -> WriteResult:
    """Refuse to unregister a broker that is not registered."""
    return refused(
        KafkaError.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker} is not currently registered"
    )


def all_brokers_down(partition: int) -> WriteResult:
    """Refuse a new partition, because all its brokers are down."""
    words = (
        f"All brokers specified in the manual partition assignment for partition {partition} are "
        "fenced or in controlled shutdown."
    )
    return refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, words)


class VersionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one version, on a cluster that was formatted with that version."""

    completes_without_kept: bool  # one that grows waits for added replicas only (4.3)
    eligible_leader_replicas: bool  # KIP-966: eligible.leader.replicas.version is 1 from 4.1
    starting_leaves_out: bool  # one that registers again leaves its ISRs (4.0)
    guards_replication_factor: bool  # allow_replication_factor_change (KIP-860, from 4.1)
    tells_fenced_brokers: bool  # whether DescribeCluster can list fenced brokers (KIP-1073, 4.0)
    cordons_log_dirs: bool  # whether brokers know cordoned.log.dirs (KIP-1066, from 4.3)
    refuses_cordoned: bool  # no assignment names a wholly cordoned broker (4.4)
    limits_added_partitions: bool  # over 10,000 new partitions are refused by name (4.4)


def rules_of(version: str) -> VersionRules:
    """Return the rules of one of `VERSIONS`."""
    known = VERSIONS[: VERSIONS.index(version) + 1]
    return VersionRules(**{rule: since in known for rule, since in _SINCE.items()})


_SINCE = {
    "completes_without_kept": "4.3",
    "eligible_leader_replicas": "4.1",
    "starting_leaves_out": "4.0",
    "guards_replication_factor": "4.1",
    "tells_fenced_brokers": "4.0",
    "cordons_log_dirs": "4.3",
    "refuses_cordoned": "4.4",
    "limits_added_partitions": "4.4",
}


ALL = "*"  # the throttled list that stands for every replica of a topic

_EVERY_BROKER = ConfigResource(ConfigScope.BROKER, "")  # holds on each broker without its own


_UNSET = dict.fromkeys(REPLICAS, Setting("", ConfigSource.DEFAULT))
"""The throttled lists that topics report if nobody has set them. Brokers report no unset rates."""


class Configs:
    """The settings of each topic and each broker, and the static ones of all brokers."""

    def __init__(
        self,
        spec: ClusterSpec,
        topics: Container[str],
        rules: VersionRules,
        registered: Container[int] | None = None,
    ) -> None:
        self._static = {
            **spec.broker_configs,
            schema.REBALANCE: str(spec.auto_leader_rebalance).lower(),
            schema.REBALANCE_INTERVAL: str(int(spec.rebalance_interval_s)),
            schema.LAG_TIME: str(int(spec.lag_time_max_s * 1_000)),
        }
        self._brokers = {str(broker.id): broker for broker in spec.brokers}
        self._registered = [b.id for b in spec.brokers] if registered is None else registered
        self._topics = topics
        self._rules = rules
        self._dynamic: dict[ConfigResource, ConfigValues] = {
            broker_resource(broker.id): dict(broker.configs)
            for broker in spec.brokers
            if broker.configs
        }

    def create(self, topic: str, values: Mapping[str, str]) -> WriteResult:
        try:
            self._check_topic(values)
        except ConfigRefused as refusal:
            return _refused(refusal)
        if values:
            self._dynamic[topic_resource(topic)] = dict(values)
        return WriteResult(Verdict.ACCEPTED)

    def forget(self, topic: str) -> None:
        self._dynamic.pop(topic_resource(topic), None)

    def alter(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, WriteResult]:
        grouped = group_by_resource(changes).items()
        return {resource: self._alter(resource, own) for resource, own in grouped}

    def _alter(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> WriteResult:
        try:
            self._dynamic[resource] = self._altered(resource, changes)
        except ConfigRefused as refusal:
            return _refused(refusal)
        return WriteResult(Verdict.ACCEPTED)

    def _altered(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> ConfigValues:
        if resource.scope is ConfigScope.TOPIC:
            new = apply_changes(self.of(resource), changes, schema.TOPIC)
            self._check_topic(new)
            if resource.name not in self._topics:
                words = f"The topic '{resource.name}' does not exist."
                raise ConfigRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, words)
            return new
        new = apply_changes(self.of(resource), changes, schema.BROKER)
        _check_broker(new)
        self._check_min_isr(resource, changes)
        self._check_cordoned(resource, new)
        if resource != _EVERY_BROKER and not (
            resource.name.isdecimal() and int(resource.name) in self._registered
        ):
            words = f"No node with id {resource.name} found."
            raise ConfigRefused(KafkaError.BROKER_ID_NOT_REGISTERED, words)
        return new

    def _check_topic(self, values: Mapping[str, str]) -> None:
        for key in values:
            if key not in schema.TOPIC:
                raise ConfigRefused(KafkaError.INVALID_CONFIG, f"Unknown topic config name: {key}")
        for key, value in values.items():
            if problem := schema.TOPIC[key].problem(key, value):
                raise ConfigRefused(KafkaError.INVALID_CONFIG, problem)
        if _true(values.get(schema.TIERED)) and not _true(self._static.get(schema.TIERING)):
            raise ConfigRefused(
                KafkaError.INVALID_CONFIG,
                "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                "configured with remote log storage.",
            )

    def _check_min_isr(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> None:
        """Keep min.insync.replicas the same on all brokers; the ELR relies on that (KIP-966)."""
        concerned = [change for change in changes if change.key == schema.MIN_ISR]
        if not concerned or not self._rules.eligible_leader_replicas:
            return
        if resource != _EVERY_BROKER:
            words = f"Broker-level {schema.MIN_ISR} cannot be altered while ELR is enabled."
            raise ConfigRefused(KafkaError.INVALID_CONFIG, words)
        if concerned[0].value is None:
            words = f"Cluster-level {schema.MIN_ISR} cannot be removed while ELR is enabled."
            raise ConfigRefused(KafkaError.INVALID_CONFIG, words)

    def _check_cordoned(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        """Check cordoned log dirs; brokers before 4.3 accept any setting that they do not know."""
        if CORDONED not in values or not self._rules.cordons_log_dirs:
            return
        if resource == _EVERY_BROKER:
            words = (
                "Cannot update these configs at default cluster level, broker id must be "
                f"specified: [{CORDONED}]"
            )
            raise ConfigRefused(KafkaError.INVALID_REQUEST, words)
        broker, named = self._brokers.get(resource.name), split_paths(values[CORDONED])
        known = () if broker is None else broker.configured_log_dirs
        if wrong := [path for path in named if named != (EVERY,) and path not in known]:
            words = (
                f"requirement failed: All entries in {CORDONED} must be present in log.dirs or "
                f"log.dir. Missing entries : {', '.join(wrong)}"
            )
            raise ConfigRefused(KafkaError.INVALID_REQUEST, words)

    def cordoned(self, broker: int) -> frozenset[str]:
        """Return the cordoned log dirs; Kafka cordons no relative path (KAFKA-20901)."""
        resource, spec = broker_resource(broker), self._brokers[str(broker)]
        if not self._rules.cordons_log_dirs or spec.relative_log_dirs:
            return frozenset()
        value = self.of(resource).get(CORDONED, self._static.get(CORDONED, ""))
        return cordoned_paths(value, spec.log_dir_paths)

    def _of_broker_alone(self, resource: ConfigResource) -> dict[str, Setting]:
        broker = self._brokers.get(resource.name)
        if broker is None:
            return {}
        paths = ",".join(broker.configured_log_dirs)
        settings = {LOG_DIRS[0]: Setting(paths, ConfigSource.FILE)}
        if self._rules.cordons_log_dirs:
            settings[CORDONED] = Setting("", ConfigSource.DEFAULT)
        return settings

    def of(self, resource: ConfigResource) -> Mapping[str, str]:
        return self._dynamic.get(resource, {})

    def described(self, resource: ConfigResource) -> Mapping[str, Setting] | None:
        if resource.scope is ConfigScope.TOPIC and resource.name not in self._topics:
            return None
        own, every = self.of(resource), self.of(_EVERY_BROKER)
        if resource.scope is ConfigScope.TOPIC:
            return _UNSET | {
                name: Setting(_as_reported(name, v), ConfigSource.OWN) for name, v in own.items()
            }
        settings = self._of_broker_alone(resource)
        settings |= {name: Setting(v, ConfigSource.FILE) for name, v in self._static.items()}
        settings |= {name: Setting(v, ConfigSource.EVERY_BROKER) for name, v in every.items()}
        return settings | {name: Setting(value, ConfigSource.OWN) for name, value in own.items()}

    def of_topic(self, topic: str, key: str, default: str) -> str:
        """Return the effective value of a topic's setting; brokers have other names for some."""
        own = self.of(topic_resource(topic)).get(key)
        if own is not None:
            return own
        key = schema.BROKER_NAMES.get(key, key)
        return self.of(_EVERY_BROKER).get(key) or self._static.get(key, default)

    def min_isr(self, topic: str) -> int:
        return int(self.of_topic(topic, schema.MIN_ISR, "1"))

    def unclean(self, topic: str) -> bool:
        return _true(self.of_topic(topic, schema.UNCLEAN, "false"))

    def retention_bytes(self, topic: str) -> int | None:
        """Return how many bytes each partition of the topic keeps; None for all."""
        kept = int(self.of_topic(topic, schema.RETENTION, "-1"))
        return None if kept < 0 else kept

    def throttled(self, topic: str, key: str) -> frozenset[tuple[int, int]] | str:
        listed = [part for part in schema.parts(self.of_topic(topic, key, "")) if part]
        if listed == [ALL]:
            return ALL
        pairs = (part.split(":") for part in listed)
        return frozenset((int(partition), int(broker)) for partition, broker in pairs)

    def topic_config(self, topic: str) -> TopicConfig | None:
        if topic not in self._topics:
            return None
        return TopicConfig(
            min_insync_replicas=self.min_isr(topic),
            compacted="compact" in self.of_topic(topic, schema.CLEANUP, "delete"),
            tiered=_true(self.of_topic(topic, schema.TIERED, "false")),
            leader_throttled_replicas=self.of_topic(topic, LEADER_REPLICAS, ""),
            follower_throttled_replicas=self.of_topic(topic, FOLLOWER_REPLICAS, ""),
        )

    def broker_config(self, broker: int) -> BrokerConfig:
        values = {**self._static, **self.of(_EVERY_BROKER), **self.of(broker_resource(broker))}

        def number(key: str) -> int | None:
            return int(values[key]) if key in values else None

        return BrokerConfig(
            leader_throttle_rate=number(LEADER_RATE),
            follower_throttle_rate=number(FOLLOWER_RATE),
            log_dir_throttle_rate=number(LOG_DIR_RATE),
            auto_leader_rebalance=_true(values[schema.REBALANCE]),
            leader_imbalance_check_interval_s=number(schema.REBALANCE_INTERVAL),
            fetch_backoff_ms=number(schema.FETCH_BACKOFF) or 1_000,
            min_insync_replicas=number(schema.MIN_ISR) or 1,
            unclean_leader_election=_true(values.get(schema.UNCLEAN)),
            replica_lag_time_max_ms=number(schema.LAG_TIME),
        )


def _check_broker(values: Mapping[str, str]) -> None:
    static = sorted(values.keys() & schema.STATIC)
    if static:
        words = f"Cannot update these configs dynamically: [{', '.join(static)}]"
        raise ConfigRefused(KafkaError.INVALID_REQUEST, words)
    for key, value in values.items():
        if key in schema.BROKER and (problem := schema.BROKER[key].problem(key, value)):
            raise ConfigRefused(KafkaError.INVALID_REQUEST, problem)


def _as_reported(name: str, value: str) -> str:
    """Return a topic's setting as Kafka reports it: lists have no blanks around their commas."""
    return value if schema.TOPIC[name].default is None else ",".join(schema.parts(value))


def _true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def _refused(refusal: ConfigRefused) -> WriteResult:
    return WriteResult(Verdict.REFUSED, refusal.code, refusal.message)
