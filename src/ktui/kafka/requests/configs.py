"""Requests that read and change settings: DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from kafka.protocol.admin.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import ClusterError, KafkaError, error_of
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    ConfigSource,
    Setting,
    SettingsAnswer,
)
from ktui.cluster.settings import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    RATE_FIELDS,
    UNLIMITED,
)
from ktui.cluster.text import clean
from ktui.kafka.transport.client import RequestFactory
from ktui.kafka.transport.translate_errors import describe_refusal

TOPIC = 2
BROKER = 4  # Kafka's numbers for the kinds of resource that have settings

_TOPIC_KEYS = (
    "min.insync.replicas",
    "cleanup.policy",
    "remote.storage.enable",
    LEADER_REPLICAS,
    FOLLOWER_REPLICAS,
)

_BROKER_NUMBERS = {
    **{field: key for key, field in RATE_FIELDS.items()},
    "log_dir_throttle_rate": LOG_DIR_RATE,
    "leader_imbalance_check_interval_s": "leader.imbalance.check.interval.seconds",
    "fetch_backoff_ms": "replica.fetch.backoff.ms",
    "min_insync_replicas": "min.insync.replicas",
    "replica_lag_time_max_ms": "replica.lag.time.max.ms",
}

_BROKER_FLAGS = {
    "auto_leader_rebalance": "auto.leader.rebalance.enable",
    "unclean_leader_election": "unclean.leader.election.enable",
}

_KINDS = {ConfigScope.TOPIC: TOPIC, ConfigScope.BROKER: BROKER}
_SCOPES = {number: scope for scope, number in _KINDS.items()}
_SOURCES = {
    1: ConfigSource.OWN,
    2: ConfigSource.OWN,
    3: ConfigSource.EVERY_BROKER,
    4: ConfigSource.FILE,
}  # Kafka's config_source numbers (DescribeConfigs): a topic, a broker, all brokers, a file
_OPS = {ConfigOp.SET: 0, ConfigOp.DELETE: 1, ConfigOp.APPEND: 2, ConfigOp.SUBTRACT: 3}  # KIP-339


def topics_request(names: Sequence[str]) -> Any:
    """Build a request for the settings of many topics."""
    return _request(TOPIC, names, _TOPIC_KEYS)


def broker_request(broker: int) -> Any:
    """Build a request for the settings of one broker."""
    return _request(BROKER, [str(broker)], (*_BROKER_NUMBERS.values(), *_BROKER_FLAGS.values()))


async def read_settings(
    ask: Callable[[RequestFactory], Awaitable[Any]],
    resources: Sequence[ConfigResource],
    names: Collection[str],
) -> SettingsAnswer:
    """Read the settings `names` of resources; if empty, those set on the resource itself."""
    scopes = [(_KINDS[resource.scope], resource.name) for resource in resources]
    try:
        answer = await ask(partial(_describe_request, scopes, list(names) or None))
    except ClusterError as error:
        return SettingsAnswer.failed(resources, error)
    settings: dict[ConfigResource, Mapping[str, Setting]] = {}
    failures: dict[ConfigResource, str] = {}
    errors: dict[ConfigResource, KafkaError] = {}
    for result in answer.results:
        resource = ConfigResource(_SCOPES[result.resource_type], result.resource_name)
        if result.error_code:
            needs = f"DescribeConfigs on {permission_target(resource)}"
            failures[resource] = describe_refusal(result.error_code, result.error_message, needs)
            if (known := error_of(result.error_code)) is not None:
                errors[resource] = known
        else:
            settings[resource] = _present_settings(result, names)
    return SettingsAnswer(settings, failures, errors)


def permission_target(resource: ConfigResource) -> str:
    """Name the resource that a permission for settings is granted on; for brokers the cluster."""
    return "the cluster" if resource.scope is ConfigScope.BROKER else f"topic {resource.name}"


def _present_settings(result: Any, names: Collection[str]) -> dict[str, Setting]:
    settings = {
        clean(c.name): Setting(c.value, _SOURCES.get(c.config_source, ConfigSource.DEFAULT))
        for c in result.configs
        if c.value is not None
    }
    if names:
        return {name: settings[name] for name in names if name in settings}
    return {name: setting for name, setting in settings.items() if setting.own is not None}


def _request(kind: int, names: Sequence[str], keys: Sequence[str]) -> Any:
    return _describe_request([(kind, name) for name in names], list(keys))


def _describe_request(resources: Sequence[tuple[int, str]], keys: list[str] | None) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def topic_config(result: Any) -> TopicConfig:
    """Read one topic's settings."""
    values = _values(result)
    return TopicConfig(
        min_insync_replicas=_number(values.get("min.insync.replicas")) or 1,
        compacted="compact" in values.get("cleanup.policy", ""),
        tiered=values.get("remote.storage.enable") == "true",
        leader_throttled_replicas=values.get(LEADER_REPLICAS, ""),
        follower_throttled_replicas=values.get(FOLLOWER_REPLICAS, ""),
    )


def broker_config(result: Any) -> BrokerConfig:
    """Read one broker's settings."""
    values = _values(result)
    numbers = {field: _number(values.get(key)) for field, key in _BROKER_NUMBERS.items()}
    flags = {field: _flag(values.get(key)) for field, key in _BROKER_FLAGS.items()}
    return msgspec.convert({**numbers, **flags}, BrokerConfig)


def _values(result: Any) -> dict[str, str]:
    return {c.name: clean(c.value) for c in result.configs if c.value is not None}


def _flag(text: str | None) -> bool | None:
    return None if text is None else text == "true"


def _number(text: str | None) -> int | None:
    if text is None or not text.lstrip("-").isdigit():
        return None
    return None if int(text) == UNLIMITED else int(text)


def alter_request(changes: Mapping[ConfigResource, Sequence[ConfigChange]]) -> Any:
    """Build a change of several resources' settings; atomic for each resource by itself."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        validate_only=False,
        resources=[
            resource(
                resource_type=_KINDS[target.scope],
                resource_name=target.name,
                configs=[
                    resource.AlterableConfig(
                        name=change.key, config_operation=_OPS[change.op], value=change.value
                    )
                    for change in theirs
                ],
            )
            for target, theirs in changes.items()
        ],
    )


def read_alter_results(answer: Any) -> Iterator[tuple[ConfigResource, int, str | None]]:
    """Yield each resource with its error code and the broker's message."""
    for result in answer.responses:
        scope = _SCOPES.get(result.resource_type)
        if scope is not None:
            resource = ConfigResource(scope, result.resource_name)
            yield resource, result.error_code, result.error_message
