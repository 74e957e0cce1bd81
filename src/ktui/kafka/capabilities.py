"""The features and permissions that ktui needs: what brokers support, and what they allow."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, NamedTuple

import msgspec
from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from ktui.cluster.errors import ClusterError
from ktui.cluster.permissions import Permissions
from ktui.cluster.text import clean
from ktui.kafka.connection.connection import Connection
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose

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
