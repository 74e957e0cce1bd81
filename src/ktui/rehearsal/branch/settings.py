"""The settings of a twin: as polled at a moment of a recording, and as its runs have set them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.ports import ConfigScope
from ktui.cluster.settings import (
    CORDONED,
    EVERY,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from ktui.execution.run.run import Run
from ktui.simulated.controller import schema
from ktui.simulated.twin.brokers import TwinSettings


def settings_at(seen: Observation, runs: Iterable[Run]) -> TwinSettings:
    """Return the settings that were polled, and those that the runs have set elsewhere."""
    topics = {name: dict(_of_topic(config)) for name, config in sorted(seen.topic_configs.items())}
    brokers = {id_: dict(_of_broker(config)) for id_, config in sorted(seen.broker_configs.items())}
    for id_ in sorted(seen.cordoned):
        brokers.setdefault(id_, {})[CORDONED] = EVERY
    for run in runs:
        for (resource, key), ours in run.throttled.changed.items():
            value = ",".join(sorted(ours.values))
            if not value:
                continue
            if resource.scope is ConfigScope.TOPIC and resource.name not in seen.topic_configs:
                topics.setdefault(resource.name, {})[key] = value
            elif resource.scope is ConfigScope.BROKER and len(ours.values) == 1:
                brokers.setdefault(int(resource.name), {}).setdefault(key, value)
    shared: dict[str, str] = {}
    for config in seen.broker_configs.values():
        shared |= {key: value for key, value in _of_all(config) if key not in shared}
    if any(config.tiered for config in seen.topic_configs.values()):
        shared[schema.TIERING] = "true"
    return TwinSettings(topics=topics, brokers=brokers, all_brokers=shared, notes=())


def _of_topic(config: TopicConfig) -> Iterator[tuple[str, str]]:
    yield schema.MIN_ISR, str(config.min_insync_replicas)
    if config.compacted:
        yield schema.CLEANUP, "compact"
    if config.tiered:
        yield schema.TIERED, "true"
    if config.leader_throttled_replicas:
        yield LEADER_REPLICAS, config.leader_throttled_replicas
    if config.follower_throttled_replicas:
        yield FOLLOWER_REPLICAS, config.follower_throttled_replicas


def _of_broker(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    for key, rate in (
        (LEADER_RATE, config.leader_throttle_rate),
        (FOLLOWER_RATE, config.follower_throttle_rate),
        (LOG_DIR_RATE, config.log_dir_throttle_rate),
    ):
        if rate is not None:
            yield key, str(rate)


def _of_all(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    flags = (
        (schema.REBALANCE, config.auto_leader_rebalance),
        (schema.UNCLEAN, config.unclean_leader_election),
    )
    yield from ((key, str(flag).lower()) for key, flag in flags if flag is not None)
    numbers = (
        (schema.MIN_ISR, config.min_insync_replicas),
        (schema.REBALANCE_INTERVAL, config.leader_imbalance_check_interval_s),
        (schema.FETCH_BACKOFF, config.fetch_backoff_ms),
        (schema.LAG_TIME, config.replica_lag_time_max_ms),
    )
    yield from ((key, str(number)) for key, number in numbers if number is not None)
