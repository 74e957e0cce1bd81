"""Topics and brokers as config resources, and config changes grouped by resource."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope

SettingKey = tuple[ConfigResource, str]
"""A resource and the name of one of its settings."""


def topic_resource(name: str) -> ConfigResource:
    """Return the config resource of a topic."""
    return ConfigResource(ConfigScope.TOPIC, name)


def broker_resource(broker: int) -> ConfigResource:
    """Return the config resource of a broker."""
    return ConfigResource(ConfigScope.BROKER, str(broker))


def group_by_resource(changes: Iterable[ConfigChange]) -> dict[ConfigResource, list[ConfigChange]]:
    """Group changes by the resource they belong to, in their original order."""
    grouped: dict[ConfigResource, list[ConfigChange]] = {}
    for change in changes:
        grouped.setdefault(change.resource, []).append(change)
    return grouped
