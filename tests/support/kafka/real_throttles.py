"""Throttles on a real cluster: all settings, and how fast brokers copy."""

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
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.transport.pool import redirect_client_log
from ktui.lab.nodes import wait_for
from support.contract.real_world import RealWorld
from support.contract.world import change

MESSAGE_BYTES = 8192
"""Bytes of one message that `ktui.kafka.workload.fill` writes."""
_LIMIT_S = 20.0
_SETTLED_S = 20.0
_UNSET = (None, -1)
_KINDS = ConfigResource.Type

Settings = dict[str, dict[str, tuple[str | None, int]]]
"""By topic or broker, and by name: the value, and Kafka's number for its source."""


def all_settings(connection: Connection) -> Settings:
    """Return every setting of every topic and broker, read by a client other than ktui's."""
    admin = AdminClient({**connection.for_confluent()}, logger=redirect_client_log("librdkafka"))
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
    """Return the present value of each setting that differs from before.

    Brokers learn of a change a moment after it was answered, so wait for the expected changes.
    """
    found: dict[str, str | None] = {}

    def as_expected() -> bool:
        found.clear()
        found.update(_otherwise(before, all_settings(connection)))
        return found == (expected or {})

    wait_for(as_expected, seconds=_SETTLED_S)
    return found


def _otherwise(before: Settings, now: Settings) -> dict[str, str | None]:
    """Skip topics made meanwhile: Kafka makes its own one when a cluster is first claimed."""
    return {
        f"{resource} {name}": has[0]
        for resource, had in before.items()
        for name in had.keys() | now.get(resource, {}).keys()
        if (has := now.get(resource, {}).get(name, _UNSET)) != had.get(name, _UNSET)
    }


async def others_set(world: RealWorld, *changes: ConfigChange) -> Settings:
    """Set something that is not the run's; return all settings once the brokers report it."""
    unset = all_settings(world.connection)
    await change(world, *changes)
    expected = {
        f"{one.resource.scope.upper()} {one.resource.name} {one.key}": one.value for one in changes
    }
    assert changed(world.connection, unset, expected) == expected
    return all_settings(world.connection)


class Copies:
    """Measures how many bytes of some partitions each broker has copied."""

    def __init__(self, reader: KafkaReader, tps: Collection[TopicPartition]) -> None:
        self._reader = reader
        self._tps = tps
        self._began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s

    async def onto(self, broker: int) -> int:
        """Return the bytes that the broker holds, by its own log ends; 0 if it cannot be asked."""
        try:
            answer = await self._reader.log_offsets(broker, ends=self._tps)
        except ClusterError:
            return 0
        return sum(answer.ends.values()) * MESSAGE_BYTES
