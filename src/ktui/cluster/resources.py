"""Topics and brokers as the owners of settings, and changes grouped by whose settings they are."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope

SettingKey = tuple[ConfigResource, str]
"""One setting of one resource."""


def of_topic(name: str) -> ConfigResource:
    """Name a topic as the owner of settings."""
    return ConfigResource(ConfigScope.TOPIC, name)


def of_broker(broker: int) -> ConfigResource:
    """Name a broker as the owner of settings."""
    return ConfigResource(ConfigScope.BROKER, str(broker))


def by_resource(changes: Iterable[ConfigChange]) -> dict[ConfigResource, list[ConfigChange]]:
    """Group changes by whose settings they are, keeping the order they come in."""
    theirs: dict[ConfigResource, list[ConfigChange]] = {}
    for change in changes:
        theirs.setdefault(change.resource, []).append(change)
    return theirs
