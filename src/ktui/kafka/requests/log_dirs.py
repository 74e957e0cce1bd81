"""One broker's log dirs and the bytes that partitions take there."""

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
    """Ask for the log dirs, and for the sizes of the named partitions only."""
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=ps) for name, ps in by_topic(partitions).items()]
    )


def log_dirs_of(broker: int, answer: Any, partitions: Collection[TopicPartition]) -> LogDirsAnswer:
    """Read a DescribeLogDirs answer; a future replica's bytes (KIP-113) are left out."""
    asked = frozenset(partitions)
    sizes: dict[TopicPartition, int] = {}
    for log_dir in answer.results:
        for topic in log_dir.topics or ():
            for told in topic.partitions:
                tp = TopicPartition(clean(topic.name), told.partition_index)
                if tp in asked and not told.is_future_key:
                    sizes[tp] = told.partition_size
    return LogDirsAnswer(tuple(_log_dir(broker, d) for d in answer.results), sizes)


def _log_dir(broker: int, told: Any) -> LogDir:
    return LogDir(
        broker=broker,
        path=clean(told.log_dir),
        error=error_codes.name_of(told.error_code) if told.error_code else None,
        total_bytes=told.total_bytes if told.total_bytes >= 0 else None,
        usable_bytes=told.usable_bytes if told.usable_bytes >= 0 else None,
        cordoned=bool(told.is_cordoned),
    )
