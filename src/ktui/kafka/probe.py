"""Whether each of the two clients connects with the settings given, for `ktui doctor`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from importlib.metadata import version
from typing import Any

import msgspec

from ktui.cluster.errors import (
    AuthenticationFailed,
    ClusterError,
    NotKafka,
    TimedOut,
    Unreachable,
    Unsupported,
)
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.client_logging import hush

_LOOK_S = 0.1


class Probe(msgspec.Struct, frozen=True):
    """How one client fared: `cluster_id` where it connected, `error` where it did not."""

    client: str
    """Name and version."""
    took_s: float
    cluster_id: str | None = None
    error: ClusterError | None = None


async def probe_kafka_python(connection: Connection) -> Probe:
    """Connect with kafka-python, which ktui does its work with, and ask who the cluster is."""
    from ktui.kafka.reader import KafkaReader  # noqa: PLC0415 -- each probe imports its own client

    async def cluster_id() -> str:
        reader = KafkaReader(connection)
        try:
            return (await reader.describe_cluster()).cluster_id
        finally:
            await reader.aclose()

    return await _timed("kafka-python", cluster_id)


async def probe_confluent(connection: Connection) -> Probe:
    """Connect with confluent-kafka, which `ktui lab` loads data with, and ask the same."""
    given_up = threading.Event()
    try:
        return await _timed(
            "confluent-kafka", lambda: asyncio.to_thread(_ask_confluent, connection, given_up)
        )
    finally:
        given_up.set()  # Ctrl-C must not have to wait for the thread


async def _timed(client: str, ask: Callable[[], Awaitable[str]]) -> Probe:
    name = f"{client} {version(client)}"
    begun = time.perf_counter()
    try:
        cluster_id = await ask()
    except ClusterError as error:
        return Probe(name, time.perf_counter() - begun, error=error)
    return Probe(name, time.perf_counter() - begun, cluster_id=cluster_id)


def _ask_confluent(connection: Connection, given_up: threading.Event) -> str:
    from confluent_kafka import KafkaException  # noqa: PLC0415 -- slow to import, only asked here
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- the same

    told: list[Any] = []
    try:
        settings: dict[str, Any] = {**connection.for_confluent(), "error_cb": told.append}
        admin = AdminClient(settings, logger=hush("librdkafka"))
        asked = admin.describe_cluster(request_timeout=connection.timeout_s)
        return clean(_awaited(admin, asked, told, connection, given_up).cluster_id)
    except KafkaException as error:
        raise _translated([*told, error.args[0]], connection) from None


def _awaited(
    admin: Any,
    asked: Future[Any],
    told: list[Any],
    connection: Connection,
    given_up: threading.Event,
) -> Any:
    """Wait for the answer, but give up at once when told that it is no use."""
    until = time.monotonic() + connection.timeout_s
    while not (asked.done() or given_up.is_set()) and time.monotonic() < until:
        admin.poll(_LOOK_S)
        if any(error.name() in _HOPELESS for error in told):
            raise _translated(told, connection)
    if not asked.done():
        raise _translated(told, connection)
    return asked.result()


_KINDS = {
    "_AUTHENTICATION": AuthenticationFailed,
    "SASL_AUTHENTICATION_FAILED": AuthenticationFailed,
    "_INVALID_ARG": AuthenticationFailed,
    "_SSL": NotKafka,
    "_RESOLVE": Unreachable,
    "_TRANSPORT": Unreachable,
    "_ALL_BROKERS_DOWN": Unreachable,
    "_UNSUPPORTED_FEATURE": Unsupported,
    "_TIMED_OUT": TimedOut,
}
"""The cluster error for each of librdkafka's, those that say most first."""


_HOPELESS = frozenset(
    {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "_RESOLVE", "_ALL_BROKERS_DOWN"}
)
"""What librdkafka goes on trying after, but an operator wants to know at once."""


def _kind(error: Any) -> type[ClusterError]:
    if "certificate verify failed" in error.str():
        return AuthenticationFailed
    return _KINDS.get(error.name(), Unreachable)


def _translated(told: list[Any], connection: Connection) -> ClusterError:
    where = ", ".join(connection.bootstrap_servers)
    attempted = "connecting by confluent-kafka"
    if not told:
        return TimedOut(attempted, where=where)
    order = list(_KINDS)
    telling = min(told, key=lambda e: order.index(e.name()) if e.name() in order else len(order))
    return _kind(telling)(attempted, where=where, answer=clean(telling.str()))
