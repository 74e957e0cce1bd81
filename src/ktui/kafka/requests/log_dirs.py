"""Requests about log dirs: which replicas a broker keeps where, and moves between log dirs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
from kafka.protocol.admin.cluster import AlterReplicaLogDirsRequest, DescribeLogDirsRequest

from ktui.cluster.broker import FutureReplica, LogDir, ReplicaDir
from ktui.cluster.errors import ClusterError, NotAuthorized
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import LogDirsAnswer
from ktui.cluster.text import clean
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.batches import by_topic
from ktui.kafka.transport.translate_errors import Purpose

_REFUSES = 3
"""The version of DescribeLogDirs from which on a missing permission is an error of its own."""


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
    """Return the error for an answer without log dirs: every broker has one at least.

    From version 3 on brokers refuse a principal without permission; before, they leave all out.
    """
    where = f"broker {broker}"
    if version < _REFUSES:
        fix = error_codes.permission_fix(purpose.needs)
        answer = "the answer is empty"
        return NotAuthorized(
            purpose.attempted, where=where, answer=answer, fix=fix, needs=purpose.needs
        )
    answer = "the answer is empty, and a broker has one log dir at least"
    fix = "A proxy on the way to the brokers may have emptied it"
    return ClusterError(purpose.attempted, where=where, answer=answer, fix=fix)


def alter_request(paths: Mapping[TopicPartition, str]) -> Any:
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


def read_alter_results(answer: Any) -> Iterator[tuple[TopicPartition, int, str | None]]:
    """Yield each partition with its error code; the answer has no messages."""
    for topic in answer.results:
        for result in topic.partitions:
            tp = TopicPartition(topic.topic_name, result.partition_index)
            yield tp, result.error_code, None


def _log_dir(broker: int, result: Any) -> LogDir:
    return LogDir(
        broker=broker,
        path=clean(result.log_dir),
        error=error_codes.name_of(result.error_code) if result.error_code else None,
        total_bytes=result.total_bytes if result.total_bytes >= 0 else None,
        usable_bytes=result.usable_bytes if result.usable_bytes >= 0 else None,
        cordoned=bool(result.is_cordoned),
    )
