"""Requests that list, start and cancel reassignments, elect leaders and add partitions."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from kafka.protocol.admin.cluster import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from kafka.protocol.admin.topics import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.api_message import ApiMessage

from ktui.cluster.broker import FutureReplica, LogDir, ReplicaDir
from ktui.cluster.errors import ClusterError, KafkaError, NotAuthorized, error_of
from ktui.cluster.partition import Brokers, Reassignment, TopicPartition
from ktui.cluster.ports import LogDirsAnswer
from ktui.cluster.text import clean
from ktui.kafka.requests.metadata import versions_request
from ktui.kafka.transport.batches import by_topic
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose, name_of, permission_fix

OF_4_3, OF_4_4 = 30, 31  # the lowest metadata.version of Kafka 4.3, and of 4.4
_FEATURE = "metadata.version"
_EVERY_S = 60.0
_PATIENCE_S = 1.0  # in which brokers tell their versions: a poll waits for this, once a minute
_PURPOSE = Purpose("asking for the metadata version")

TargetsOrCancel = Mapping[TopicPartition, tuple[int, ...] | None]  # None cancels


class ReassignmentRules(NamedTuple):
    """How a cluster treats reassignments; the fields are those of `ClusterDescription`."""

    waits_for_kept: bool = True
    refuses_cordoned: bool | None = None


class RulesInForce:
    """The rules by which a cluster reassigns, refreshed every minute: clusters are upgraded."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._rules = ReassignmentRules()
        self._asked_s: float | None = None

    async def now(self, brokers: Collection[int]) -> ReassignmentRules:
        """Return the rules; the defaults where the cluster does not tell its version."""
        now_s = time.monotonic()
        if self._asked_s is None or now_s - self._asked_s >= _EVERY_S:
            self._asked_s = now_s
            self._rules = await self._fetch(brokers)
        return self._rules

    async def _fetch(self, brokers: Collection[int]) -> ReassignmentRules:
        try:
            answer = await self._wire.ask(_PURPOSE, versions_request)
        except ClusterError:
            return ReassignmentRules()
        levels = {f.name: f.max_version_level for f in answer.finalized_features or ()}
        level = levels.get(_FEATURE, 0)
        if not level:
            return ReassignmentRules()
        # The active controller decides, by its own code. From 4.4 on it must have that code, and
        # before 4.3 it records no cordon. In between, a cluster is on 4.3 or being upgraded.
        refuses = level >= OF_4_4 if level != OF_4_3 else await self._any_has_4_4(brokers)
        return ReassignmentRules(level < OF_4_3, refuses)

    async def _any_has_4_4(self, brokers: Collection[int]) -> bool | None:
        known = await asyncio.gather(*map(self._newest_known, brokers))
        if any(newest is not None and newest >= OF_4_4 for newest in known):
            return True
        return None if None in known else False

    async def _newest_known(self, broker: int) -> int | None:
        try:
            answer = await self._wire.ask(
                _PURPOSE, versions_request, broker=broker, limit_s=_PATIENCE_S
            )
        except ClusterError:
            return None
        known = {f.name: f.max_version for f in answer.supported_features or ()}
        return known.get(_FEATURE)


def list_request(timeout_s: float) -> Any:
    """Build a request for every ongoing reassignment of the cluster."""
    return ListPartitionReassignmentsRequest(timeout_ms=int(timeout_s * 1000), topics=None)


def read_reassignments(answer: Any) -> Mapping[TopicPartition, Reassignment]:
    """Read a ListPartitionReassignments answer."""
    return {
        TopicPartition(clean(topic.name), ongoing.partition_index): Reassignment(
            replicas=tuple(ongoing.replicas),
            adding=tuple(ongoing.adding_replicas),
            removing=tuple(ongoing.removing_replicas),
        )
        for topic in answer.topics
        for ongoing in topic.partitions
    }


def alter_request(targets: TargetsOrCancel, timeout_s: float, *, guarded: bool) -> Any:
    """Build a start or cancel; `guarded` (from 4.1, else it raises) refuses another factor."""
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[Any]] = {}
    for tp, replicas in targets.items():
        partition = topic.ReassignablePartition(
            partition_index=tp.partition, replicas=None if replicas is None else list(replicas)
        )
        topics.setdefault(tp.topic, []).append(partition)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(timeout_s * 1000),
        allow_replication_factor_change=not guarded,
        topics=[topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        min_version=1 if guarded else 0,
    )


def read_alter_results(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
    """Yield each partition with its error code and the controller's message."""
    for topic in answer.responses:
        for result in topic.partitions:
            tp = TopicPartition(topic.name, result.partition_index)
            yield tp, result.error_code, result.error_message


def elect_request(partitions: Collection[TopicPartition], timeout_s: float) -> Any:
    """Build a request to elect the first replica of each partition."""
    topic = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=ElectionType.PREFERRED,
        topic_partitions=[
            topic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()
        ],
        timeout_ms=int(timeout_s * 1000),
    )


def read_election_results(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
    """Yield each partition with its error code and the controller's message."""
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            tp = TopicPartition(topic.topic, result.partition_id)
            yield tp, result.error_code, result.error_message


def create_request(
    topic: str, count: int, assignment: Sequence[Brokers] | None, timeout_s: float
) -> Any:
    """Build a request for a topic to have `count` partitions; without assignment, Kafka places."""
    of_topic = CreatePartitionsRequest.CreatePartitionsTopic
    placed = None
    if assignment is not None:
        replicas = of_topic.CreatePartitionsAssignment
        placed = [replicas(broker_ids=list(brokers)) for brokers in assignment]
    return CreatePartitionsRequest(
        topics=[of_topic(name=topic, count=count, assignments=placed)],
        timeout_ms=int(timeout_s * 1000),
        validate_only=False,
    )


def read_create_results(answer: Any) -> Iterator[tuple[str, int, str | None]]:
    """Yield each topic with its error code and the controller's message, or the wait."""
    for result in answer.results:
        message = result.error_message
        if error_of(result.error_code) is KafkaError.THROTTLING_QUOTA_EXCEEDED:
            wait_s = math.ceil(answer.throttle_time_ms / 1000)
            message = (
                "the quota controller_mutation_rate of this user or client id is used up for "
                f"{wait_s} s"
            )
        yield result.name, result.error_code, message


_REFUSES = 3  # from this version of DescribeLogDirs on a missing permission is an error


def log_dirs_request(partitions: Collection[TopicPartition] | None) -> Any:
    """Build a request for the log dirs, with the replicas of the named partitions; None for all."""
    if partitions is None:
        return DescribeLogDirsRequest(topics=None)
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=ps) for name, ps in by_topic(partitions).items()]
    )


def read_log_dirs(
    broker: int, answer: Any, partitions: Collection[TopicPartition] | None
) -> LogDirsAnswer:
    """Read a DescribeLogDirs answer about the named partitions; None for all."""
    requested = None if partitions is None else frozenset(partitions)
    present: dict[TopicPartition, ReplicaDir] = {}
    future: dict[TopicPartition, FutureReplica] = {}
    for log_dir in answer.results:
        path = clean(log_dir.log_dir)
        for topic in log_dir.topics or ():
            for replica in topic.partitions:
                tp = TopicPartition(clean(topic.name), replica.partition_index)
                if requested is not None and tp not in requested:
                    continue
                if replica.is_future_key:
                    lag = replica.offset_lag if replica.offset_lag >= 0 else None
                    future[tp] = FutureReplica(path, replica.partition_size, lag)
                else:
                    present[tp] = ReplicaDir(path, replica.partition_size)
    replicas = {
        tp: msgspec.structs.replace(held, future=future[tp]) if tp in future else held
        for tp, held in present.items()
    }
    return LogDirsAnswer(tuple(_log_dir(broker, d) for d in answer.results), replicas)


def error_for_empty(broker: int, version: int, purpose: Purpose) -> ClusterError:
    """Return the error for an answer without log dirs; from version 3 on brokers refuse instead."""
    where = f"broker {broker}"
    if version < _REFUSES:
        fix = permission_fix(purpose.needs)
        answer = "the answer is empty"
        return NotAuthorized(
            purpose.attempted, where=where, answer=answer, fix=fix, needs=purpose.needs
        )
    answer = "the answer is empty, and a broker has one log dir at least"
    fix = "A proxy on the way to the brokers may have emptied it"
    return ClusterError(purpose.attempted, where=where, answer=answer, fix=fix)


def move_request(paths: Mapping[TopicPartition, str]) -> Any:
    """Build a request to move replicas of the broker that receives it to these log dirs."""
    log_dir = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = log_dir.AlterReplicaLogDirTopic
    by_path: dict[str, list[TopicPartition]] = {}
    for tp, path in paths.items():
        by_path.setdefault(path, []).append(tp)
    return AlterReplicaLogDirsRequest(
        dirs=[
            log_dir(
                path=path,
                topics=[
                    topic(name=name, partitions=numbers) for name, numbers in by_topic(tps).items()
                ],
            )
            for path, tps in by_path.items()
        ]
    )


def read_moves(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
    """Yield each partition with its error code; the answer has no messages."""
    for topic in answer.results:
        for result in topic.partitions:
            tp = TopicPartition(topic.topic_name, result.partition_index)
            yield tp, result.error_code, None


def _log_dir(broker: int, result: Any) -> LogDir:
    return LogDir(
        broker=broker,
        path=clean(result.log_dir),
        error=name_of(result.error_code) if result.error_code else None,
        total_bytes=result.total_bytes if result.total_bytes >= 0 else None,
        usable_bytes=result.usable_bytes if result.usable_bytes >= 0 else None,
        cordoned=bool(result.is_cordoned),
    )


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """UnregisterBroker, API key 64. A broker forwards it to the active controller."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg,misc]  # kafka-python is untyped
    """The controller's answer: an error code for the request as a whole, and a message."""


def read_unregister_result(broker: int, answer: Any) -> Iterator[tuple[int, int, str | None]]:
    """Yield the broker with the error code and the controller's message."""
    yield broker, answer.error_code, answer.error_message
