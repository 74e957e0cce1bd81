"""The settings of a real cluster that a simulated one has, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ktui.cluster.broker import LogDir, all_cordoned
from ktui.cluster.cordon import CORDONED, EVERY
from ktui.cluster.ports import ClusterReader, ConfigResource, ConfigSource, Setting
from ktui.cluster.resources import broker_resource, topic_resource
from ktui.cluster.throttle_settings import LOG_DIR_RATE, RATES
from ktui.simulated.controller import schema

SESSION_TIMEOUT = "broker.session.timeout.ms"
OF_ONE_BROKER = (*RATES, LOG_DIR_RATE)
"""The settings that may differ from broker to broker in a twin."""
OF_ALL_BROKERS = (
    schema.MIN_ISR,
    schema.UNCLEAN,
    "log.retention.bytes",
    "log.cleanup.policy",
    schema.REBALANCE,
    schema.REBALANCE_INTERVAL,
    schema.FETCH_BACKOFF,
    schema.LAG_TIME,
    SESSION_TIMEOUT,
)
"""The settings that are the same on all brokers of a twin."""


class TwinSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings by Kafka's names, where they are not Kafka's defaults."""

    topics: Mapping[str, Mapping[str, str]]
    brokers: Mapping[int, Mapping[str, str]]
    all_brokers: Mapping[str, str]
    notes: tuple[str, ...]
    """What could not be read, or differs from the cluster."""


async def read_settings(
    reader: ClusterReader,
    topics: Iterable[str],
    brokers: Iterable[int],
    log_dirs: Mapping[int, tuple[LogDir, ...]],
) -> TwinSettings:
    """Read the settings of topics, and of brokers that are up."""
    names, notes = (*OF_ONE_BROKER, *OF_ALL_BROKERS), []
    of_brokers = await reader.settings([broker_resource(b) for b in brokers], names)
    of_topics = await reader.settings([topic_resource(topic) for topic in topics])
    for kind, failures in (("brokers", of_brokers.failures), ("topics", of_topics.failures)):
        if failures:
            first = min(failures)
            notes.append(
                f"the settings of {len(failures):,} {kind} cannot be read, and Kafka's defaults "
                f"are assumed: {first.scope.value} {first.name}: {failures[first]}"
            )
    shared, differing = _of_all({int(r.name): found for r, found in of_brokers.settings.items()})
    if differing:
        notes.append(
            f"brokers differ in {', '.join(differing)}; the twin's brokers all have the most "
            "common value"
        )
    own = {topic: _of_topic(found) for topic, found in _by_name(of_topics.settings).items()}
    if any(values.get(schema.TIERED) == "true" for values in own.values()):
        shared = {**shared, schema.TIERING: "true"}
    return TwinSettings(
        topics=own,
        brokers={
            broker: _of_broker(of_brokers.settings.get(broker_resource(broker), {}), dirs)
            for broker, dirs in sorted(log_dirs.items())
        },
        all_brokers=shared,
        notes=tuple(notes),
    )


def _by_name(
    found: Mapping[ConfigResource, Mapping[str, Setting]],
) -> dict[str, Mapping[str, Setting]]:
    return {resource.name: found[resource] for resource in sorted(found)}


def _of_topic(found: Mapping[str, Setting]) -> dict[str, str]:
    """Return the settings of a topic that Kafka has, and whose values it accepts."""
    return {
        key: setting.value
        for key, setting in sorted(found.items())
        if setting.own and key in schema.TOPIC and not schema.TOPIC[key].problem(key, setting.value)
    }


def _of_broker(found: Mapping[str, Setting], log_dirs: tuple[LogDir, ...]) -> dict[str, str]:
    own = {
        key: found[key].value
        for key in OF_ONE_BROKER
        if key in found and found[key].source is not ConfigSource.DEFAULT
    }
    return own | ({CORDONED: EVERY} if all_cordoned(log_dirs) else {})


def _of_all(
    brokers: Mapping[int, Mapping[str, Setting]],
) -> tuple[Mapping[str, str], list[str]]:
    """Return the most common values, and the settings in which brokers differ."""
    shared: dict[str, str] = {}
    differing: list[str] = []
    for key in OF_ALL_BROKERS:
        values = Counter(
            settings[key].value
            for _, settings in sorted(brokers.items())
            if key in settings and settings[key].source is not ConfigSource.DEFAULT
        )
        if not values:
            continue
        value, count = max(values.items(), key=lambda each: (each[1], each[0]))
        defaults = len(brokers) - values.total()
        if count >= defaults:
            shared[key] = value
        if count < len(brokers):
            differing.append(key)
    return shared, differing
