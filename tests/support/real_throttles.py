"""Throttles on a real cluster: every setting that there is, and how fast brokers copy."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AdminClient,
    ConfigResource,
)

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange
from ktui.kafka.connection import Connection
from ktui.kafka.quiet import hush
from ktui.kafka.reader import KafkaReader
from ktui.lab.processes import wait_for
from support.real_world import RealWorld
from support.world import change

MESSAGE_BYTES = 8192
"""What `ktui.kafka.load.fill` writes, one message."""
_LIMIT_S = 20.0
_SETTLED_S = 20.0
_UNSET = (None, -1)
_KINDS = ConfigResource.Type

Settings = dict[str, dict[str, tuple[str | None, int]]]
"""By topic or broker, and name: the value, and Kafka's number for where it comes from."""


def all_settings(connection: Connection) -> Settings:
    """Give every setting of every topic and broker, as another client than ours reads it."""
    admin = AdminClient({**connection.for_confluent()}, logger=hush("librdkafka"))
    seen = admin.list_topics(timeout=_LIMIT_S)
    asked = [ConfigResource(_KINDS.TOPIC, name) for name in seen.topics]
    answers = admin.describe_configs(asked) if asked else {}
    for broker in seen.brokers:
        answers |= admin.describe_configs([ConfigResource(_KINDS.BROKER, str(broker))])
    return {
        f"{resource.restype.name} {resource.name}": _values(answer.result(_LIMIT_S))
        for resource, answer in answers.items()
    }


def _values(entries: Mapping[str, Any]) -> dict[str, tuple[str | None, int]]:
    return {name: (entry.value, int(entry.source)) for name, entry in entries.items()}


def changed(
    connection: Connection, before: Settings, expected: Mapping[str, str | None] | None = None
) -> dict[str, str | None]:
    """Give each setting that is otherwise than before, as it is now.

    Brokers hear of a change a moment after it was answered: what is expected is waited for.
    """
    found: dict[str, str | None] = {}

    def as_expected() -> bool:
        found.clear()
        found.update(_otherwise(before, all_settings(connection)))
        return found == (expected or {})

    wait_for(as_expected, seconds=_SETTLED_S)
    return found


def _otherwise(before: Settings, now: Settings) -> dict[str, str | None]:
    return {
        f"{resource} {name}": has[0]
        for resource in before.keys() | now.keys()
        for name in before.get(resource, {}).keys() | now.get(resource, {}).keys()
        if (has := now.get(resource, {}).get(name, _UNSET))
        != before.get(resource, {}).get(name, _UNSET)
    }


async def others_set(world: RealWorld, *changes: ConfigChange) -> Settings:
    """Set what is not the run's, and give all settings once the brokers tell of it."""
    unset = all_settings(world.connection)
    await change(world, *changes)
    expected = {
        f"{one.resource.scope.upper()} {one.resource.name} {one.key}": one.value for one in changes
    }
    assert changed(world.connection, unset, expected) == expected
    return all_settings(world.connection)


class Copies:
    """Follows how much each broker has copied of some partitions, in bytes, from its start on."""

    def __init__(self, reader: KafkaReader, tps: Collection[TopicPartition]) -> None:
        self._reader = reader
        self._tps = tps
        self._began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s

    async def onto(self, broker: int) -> int:
        """Give what the broker holds by its own log ends."""
        try:
            answer = await self._reader.log_offsets(broker, ends=self._tps)
        except ClusterError:
            return 0
        return sum(answer.ends.values()) * MESSAGE_BYTES
