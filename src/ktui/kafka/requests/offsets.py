"""ListOffsets: where one broker's own replicas end, and where they start on its disk."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kafka.protocol.consumer.offsets import ListOffsetsRequest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.batches import by_topic

_DEBUGGING_REPLICA = -2
"""Kafka's "debugging consumer": followers answer it too, and leaders report their log end."""

LATEST = -1
EARLIEST_LOCAL = -4
"""The first offset on the broker's disk: the log start, and on a tiered topic a later one."""
_SINCE = 8
"""The version that knows it."""


def offsets_request(
    partitions: Collection[TopicPartition], timestamp: int, timeout_s: float
) -> Any:
    """Build a request for where a broker's own replicas end (LATEST) or start (EARLIEST_LOCAL).

    A request may not name a partition twice, so ends and starts are two requests.
    """
    request = ListOffsetsRequest
    return request(
        replica_id=_DEBUGGING_REPLICA,
        isolation_level=0,
        timeout_ms=int(timeout_s * 1000),
        min_version=_SINCE if timestamp == EARLIEST_LOCAL else 1,
        topics=[
            request.ListOffsetsTopic(
                name=topic,
                partitions=[
                    request.ListOffsetsTopic.ListOffsetsPartition(
                        partition_index=p, current_leader_epoch=-1, timestamp=timestamp
                    )
                    for p in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ],
    )


def read_offsets(
    answers: Iterable[Any], errors: dict[TopicPartition, str]
) -> dict[TopicPartition, int]:
    """Read offsets; the error of a partition that the broker refused goes into `errors`."""
    offsets: dict[TopicPartition, int] = {}
    for answer in answers:
        for topic in answer.topics:
            for found in topic.partitions:
                tp = TopicPartition(clean(topic.name), found.partition_index)
                if found.error_code:
                    errors[tp] = error_codes.name_of(found.error_code)
                else:
                    offsets[tp] = found.offset
    return offsets
