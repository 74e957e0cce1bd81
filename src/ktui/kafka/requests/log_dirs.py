"""DescribeLogDirs: one broker's log dirs, and the bytes that partitions take there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.admin.cluster import DescribeLogDirsRequest

from ktui.cluster.broker import LogDir
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import LogDirsAnswer
from ktui.cluster.text import clean
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.batches import by_topic


def log_dirs_request(partitions: Collection[TopicPartition]) -> Any:
    """Build a request for the log dirs, with the sizes of the named partitions only."""
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=ps) for name, ps in by_topic(partitions).items()]
    )


def read_log_dirs(
    broker: int, answer: Any, partitions: Collection[TopicPartition]
) -> LogDirsAnswer:
    """Read a DescribeLogDirs answer, without the bytes of future replicas (KIP-113)."""
    requested = frozenset(partitions)
    sizes: dict[TopicPartition, int] = {}
    for log_dir in answer.results:
        for topic in log_dir.topics or ():
            for replica in topic.partitions:
                tp = TopicPartition(clean(topic.name), replica.partition_index)
                if tp in requested and not replica.is_future_key:
                    sizes[tp] = replica.partition_size
    return LogDirsAnswer(tuple(_log_dir(broker, d) for d in answer.results), sizes)


def _log_dir(broker: int, result: Any) -> LogDir:
    return LogDir(
        broker=broker,
        path=clean(result.log_dir),
        error=error_codes.name_of(result.error_code) if result.error_code else None,
        total_bytes=result.total_bytes if result.total_bytes >= 0 else None,
        usable_bytes=result.usable_bytes if result.usable_bytes >= 0 else None,
        cordoned=bool(result.is_cordoned),
    )
