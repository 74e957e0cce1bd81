"""What brokers support and allow, by each of the two clients, and what controllers list."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import msgspec
from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from ktui.cluster.errors import (
    AuthenticationFailed,
    ClusterError,
    NotKafka,
    TimedOut,
    Unreachable,
    Unsupported,
)
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import Permissions, WriteResult
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.requests.metadata import ControllerWire, describe_request
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.pool import redirect_client_log
from ktui.kafka.transport.translate_errors import Purpose
from ktui.kafka.writer import KafkaWriter

_RELEASES = (
    (34, "4.5 or later"),
    (31, "4.4"),
    (30, "4.3"),
    (28, "4.2"),
    (26, "4.1"),
    (22, "4.0"),
    (21, "3.9"),
    (0, "before 3.9"),
)  # Kafka releases, each with the lowest metadata.version (KIP-778) that is new in it
_OPERATIONS = {
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
}  # Kafka's numbers for ACL operations (AclOperation)
_PERMITTED = Purpose("asking what is permitted")
_cluster_request = partial(DescribeClusterRequest, include_cluster_authorized_operations=True)


class NeededApi(NamedTuple):
    """A feature that ktui needs of a broker, and the API version that provides it."""

    what: str
    api: int
    version: int
    without: str
    required: bool = True


NEEDS = (
    NeededApi("describe the cluster", ApiKey.DescribeCluster, 0, "nothing can be shown"),
    NeededApi("list reassignments", ApiKey.ListPartitionReassignments, 0, "nothing can be shown"),
    NeededApi("alter reassignments", ApiKey.AlterPartitionReassignments, 0, "nothing can be moved"),
    NeededApi("elect preferred leaders", ApiKey.ElectLeaders, 1, "no leader can be moved"),
    NeededApi("alter settings", ApiKey.IncrementalAlterConfigs, 0, "no throttle can be set"),
    NeededApi("read settings", ApiKey.DescribeConfigs, 1, "throttles and min ISR are not shown"),
    NeededApi(
        "log ends of replicas", ApiKey.ListOffsets, 1, "replica lag is not shown in messages"
    ),
    NeededApi(
        "sizes on disk", ApiKey.DescribeLogDirs, 1, "bytes to move are not shown", required=False
    ),
    NeededApi(
        "room on disk", ApiKey.DescribeLogDirs, 4, "disk room is not checked", required=False
    ),
    NeededApi("cordoned log dirs", ApiKey.DescribeLogDirs, 5, "they are not shown", required=False),
    NeededApi(
        "fenced brokers", ApiKey.DescribeCluster, 2, "a fenced broker looks absent", required=False
    ),
    NeededApi(
        "fresh metadata",
        ApiKey.DescribeQuorum,
        0,
        "a run trusts surprising metadata only after several polls",
        required=False,
    ),
    NeededApi(
        "eligible leader replicas",
        ApiKey.DescribeTopicPartitions,
        0,
        "they are not shown",
        required=False,
    ),
    NeededApi(
        "replication factor guard",
        ApiKey.AlterPartitionReassignments,
        1,
        "ktui compares replication factors by itself",
        required=False,
    ),
)


class BrokerAbilities(msgspec.Struct, frozen=True):
    """The features of one broker; `error` instead if the broker could not be asked."""

    broker: int
    release: str | None = None  # by the newest metadata.version it knows; None if unknown
    metadata_version: int | None = None  # the cluster's finalized metadata.version, a feature level
    lacks: tuple[NeededApi, ...] = ()
    error: ClusterError | None = None


def oldest_release(brokers: Iterable[BrokerAbilities]) -> str | None:
    """Return the oldest release among brokers; None where no broker tells its own."""
    found = {broker.release for broker in brokers}
    return next((release for _, release in reversed(_RELEASES) if release in found), None)


class Capabilities:
    """A client that asks a cluster what it supports and allows; close it with `aclose`."""

    def __init__(self, connection: Connection, *, timeout_s: float | None = None) -> None:
        self._wire = Wire(connection, timeout_s=timeout_s)

    async def brokers(self) -> list[BrokerAbilities]:
        brokers = sorted(await self._wire.broker_ids())
        return await asyncio.gather(*(self._abilities(broker) for broker in brokers))

    async def _abilities(self, broker: int) -> BrokerAbilities:
        request = partial(
            ApiVersionsRequest, client_software_name="ktui", client_software_version="0"
        )
        try:
            answer = await self._wire.ask(Purpose("asking for versions"), request, broker=broker)
        except ClusterError as error:
            return BrokerAbilities(broker, error=error)
        highest = {api.api_key: api.max_version for api in answer.api_keys}
        known = {f.name: f.max_version for f in answer.supported_features or ()}
        finalized = {f.name: f.max_version_level for f in answer.finalized_features or ()}
        return BrokerAbilities(
            broker,
            release=release_of(known.get("metadata.version")),
            metadata_version=finalized.get("metadata.version"),
            lacks=tuple(need for need in NEEDS if highest.get(need.api, -1) < need.version),
        )

    async def permissions(self, topics: Collection[str] | None = None) -> Permissions:
        cluster, described = await asyncio.gather(
            self._wire.ask(_PERMITTED, _cluster_request),
            self._wire.ask(_PERMITTED, partial(_topics_request, topics)),
        )
        return Permissions(
            _operation_names(cluster.authorized_operations),
            {
                clean(topic.name): _operation_names(topic.authorized_operations)
                for topic in described.topics
                if not topic.error_code
            },
        )

    async def visible_topics(self, names: Collection[str] | None = None) -> Collection[str]:
        return (await self.permissions(names)).topics

    async def aclose(self) -> None:
        await self._wire.aclose()


def _topics_request(names: Collection[str] | None) -> Any:
    topic = partial(MetadataRequest.MetadataRequestTopic, topic_id=uuid.UUID(int=0))
    return MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in sorted(names)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        max_version=12,
    )


def _operation_names(operations: set[int] | None) -> frozenset[str]:
    """Name operations. Assume all if a broker reports none: it refuses what is not permitted."""
    if operations is None:
        return frozenset(_OPERATIONS.values())
    return frozenset(_OPERATIONS[op] for op in operations or () if op in _OPERATIONS)


def release_of(known: int | None) -> str | None:
    """Return the release of Kafka whose newest metadata.version is this feature level."""
    if known is None:
        return None
    return next(name for lowest, name in _RELEASES if known >= lowest)


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
