"""Connection tests with each of the two clients, for `ktui doctor`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import WriteResult
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests.metadata import ControllerWire, describe_request
from ktui.kafka.transport.pool import redirect_client_log
from ktui.kafka.transport.translate_errors import Purpose
from ktui.kafka.writer import KafkaWriter

_POLL_S = 0.1
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
}  # the cluster error for each librdkafka error, the most informative first
_FATAL = frozenset(
    {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "_RESOLVE", "_ALL_BROKERS_DOWN"}
)  # errors after which librdkafka keeps trying, but which an operator wants to know at once


class Probe(msgspec.Struct, frozen=True):
    """The result of one client: `cluster_id` if it connected, `error` if it did not."""

    client: str  # name and version
    took_s: float
    cluster_id: str | None = None
    error: ClusterError | None = None


async def probe_kafka_python(connection: Connection) -> Probe:
    """Connect with kafka-python, which does ktui's work, and read the cluster id."""

    async def cluster_id() -> str:
        reader = KafkaReader(connection)
        try:
            return (await reader.describe_cluster()).cluster_id
        finally:
            await reader.aclose()

    return await _timed("kafka-python", cluster_id)


async def probe_confluent(connection: Connection) -> Probe:
    """Connect with confluent-kafka, which loads data for `ktui lab`, and read the cluster id."""
    given_up = threading.Event()
    try:
        return await _timed(
            "confluent-kafka", lambda: asyncio.to_thread(_ask_confluent, connection, given_up)
        )
    finally:
        given_up.set()  # so that Ctrl-C does not wait for the thread


async def _timed(client: str, ask: Callable[[], Awaitable[str]]) -> Probe:
    name = f"{client} {version(client)}"
    begun = time.perf_counter()
    try:
        cluster_id = await ask()
    except ClusterError as error:
        return Probe(name, time.perf_counter() - begun, error=error)
    return Probe(name, time.perf_counter() - begun, cluster_id=cluster_id)


def _ask_confluent(connection: Connection, given_up: threading.Event) -> str:
    from confluent_kafka import KafkaException  # noqa: PLC0415 -- slow to import, only used here
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- the same

    errors: list[Any] = []
    try:
        settings: dict[str, Any] = {**connection.for_confluent(), "error_cb": errors.append}
        admin = AdminClient(settings, logger=redirect_client_log("librdkafka"))
        answer = admin.describe_cluster(request_timeout=connection.timeout_s)
        return clean(_awaited(admin, answer, errors, connection, given_up).cluster_id)
    except KafkaException as error:
        raise _translated([*errors, error.args[0]], connection) from None


def _awaited(
    admin: Any,
    answer: Future[Any],
    errors: list[Any],
    connection: Connection,
    given_up: threading.Event,
) -> Any:
    """Wait for the answer, but raise at once on an error that more waiting cannot cure."""
    until = time.monotonic() + connection.timeout_s
    while not (answer.done() or given_up.is_set()) and time.monotonic() < until:
        admin.poll(_POLL_S)
        if any(error.name() in _FATAL for error in errors):
            raise _translated(errors, connection)
    if not answer.done():
        raise _translated(errors, connection)
    return answer.result()


def _kind(error: Any) -> type[ClusterError]:
    if "certificate verify failed" in error.str():
        return AuthenticationFailed
    return _KINDS.get(error.name(), Unreachable)


def _translated(errors: list[Any], connection: Connection) -> ClusterError:
    where = ", ".join(connection.bootstrap_servers)
    attempted = "connecting by confluent-kafka"
    if not errors:
        return TimedOut(attempted, where=where)
    order = list(_KINDS)
    best = min(errors, key=lambda e: order.index(e.name()) if e.name() in order else len(order))
    return _kind(best)(attempted, where=where, answer=clean(best.str()))


_DESCRIBE = Purpose("describing the controllers")


class Controllers:
    """The reassignments of a cluster, by its controllers."""

    def __init__(self, connection: Connection) -> None:
        self._wire = ControllerWire(connection, changes=True)
        self._reader = KafkaReader(connection, wire=self._wire)
        self._writer = KafkaWriter(connection, wire=self._wire)

    async def cluster_id(self) -> str:
        return str((await self._wire.ask(_DESCRIBE, describe_request)).cluster_id)

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return await self._reader.list_reassignments()

    async def cancel(
        self, partitions: Iterable[TopicPartition], *, leaves_within_s: float
    ) -> Mapping[TopicPartition, WriteResult]:
        return await self._writer.alter_reassignments(
            dict.fromkeys(partitions),
            allow_replication_factor_change=True,
            leaves_within_s=leaves_within_s,
        )

    async def aclose(self) -> None:
        await self._wire.aclose()
