"""Requests for brokers, topics and partitions, and readers of their answers."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from ktui.cluster.broker import Broker
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.kafka_error import Means, means
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterDescription, TopicsAnswer
from ktui.cluster.text import clean
from ktui.kafka.transport import error_codes
from ktui.kafka.transport.batches import by_topic

PAGE = 2_000  # partitions; brokers cap it at max.request.partition.size.limit, 2,000 by default
_WITH_FENCED = 2  # DescribeCluster lists fenced brokers from this version on (KIP-1073)
_NEEDED = {Operation.TOPIC_CONFIGS: "DescribeConfigs"}
_NO_ID = uuid.UUID(int=0)


def cluster_request() -> Any:
    """Build a request for the brokers, including fenced ones where supported (4.0 and later)."""
    return DescribeClusterRequest(include_fenced_brokers=True)


def cluster_description(answer: Any) -> ClusterDescription:
    """Read a DescribeCluster answer, which tells nothing of the rules of reassignments."""
    brokers = {b.broker_id: _broker(b) for b in answer.brokers}
    controller = answer.controller_id if answer.controller_id >= 0 else None
    cluster_id = clean(answer.cluster_id)
    return ClusterDescription(
        cluster_id, controller, brokers, reports_fenced=answer.version >= _WITH_FENCED
    )


def _broker(found: Any) -> Broker:
    return Broker(
        id=found.broker_id,
        host=clean(found.host or ""),
        port=found.port,
        rack=None if found.rack is None else clean(found.rack),
        alive=not found.is_fenced,
    )


def page_request(names: Sequence[str], cursor: Any, limit: int = PAGE) -> Any:
    """Build a request for one page of partitions (KIP-966); no names means every topic."""
    request = DescribeTopicPartitionsRequest
    start = cursor and request.Cursor(
        topic_name=cursor.topic_name, partition_index=cursor.partition_index
    )
    topics = [request.TopicRequest(name=name) for name in names]
    return request(topics=topics, response_partition_limit=limit, cursor=start)


def remaining_names(names: Sequence[str], cursor: Any) -> list[str]:
    """Drop the topics that earlier pages have covered in full; brokers page by name."""
    return [n for n in names if cursor is None or n >= cursor.topic_name]


def metadata_request(names: Collection[str] | None) -> Any:
    """Build a Metadata request, for brokers before 3.8; None means every topic."""
    topic = MetadataRequest.MetadataRequestTopic
    topics = None if names is None else [topic(name=name, topic_id=_NO_ID) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False, max_version=12)


def topics_answer(topics: Iterable[Any]) -> TopicsAnswer:
    """Read the topics of a DescribeTopicPartitions or a Metadata answer."""
    partitions: dict[TopicPartition, PartitionState] = {}
    absent: set[str] = set()
    failures: list[Failure] = []
    for topic in topics:
        name = clean(topic.name or "")
        if means(topic.error_code, Means.ABSENT):
            absent.add(name)
        elif topic.error_code:
            failures.append(topic_failure(Operation.METADATA, name, topic.error_code, None))
        else:
            topic_id = format_topic_id(topic.topic_id)
            for found in topic.partitions:
                state = _partition(TopicPartition(name, found.partition_index), topic_id, found)
                partitions[state.tp] = state
    return TopicsAnswer(partitions, frozenset(absent), tuple(failures))


def merge_answers(answers: Iterable[TopicsAnswer]) -> TopicsAnswer:
    """Merge the pages of one query."""
    partitions: dict[TopicPartition, PartitionState] = {}
    absent: set[str] = set()
    failures: list[Failure] = []
    for answer in answers:
        partitions.update(answer.partitions)
        absent |= answer.absent
        failures += answer.failures
    return TopicsAnswer(partitions, frozenset(absent), tuple(failures))


def topic_failure(operation: Operation, topic: str, code: int, message: str | None) -> Failure:
    """Return the failure for a topic whose part of an answer is an error."""
    needs = f"{_NEEDED.get(operation, 'Describe')} on topic {topic}"
    answer = error_codes.describe_refusal(code, message, needs)
    return Failure(operation, answer, topic=topic, denied=means(code, Means.DENIED))


def format_topic_id(topic_id: uuid.UUID | None) -> str | None:
    """Format a topic id as Kafka's tools do; None for the zero id of brokers without topic ids."""
    if topic_id is None or topic_id == _NO_ID:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")


def _partition(tp: TopicPartition, topic_id: str | None, found: Any) -> PartitionState:
    elr = getattr(found, "eligible_leader_replicas", None)
    return PartitionState(
        tp=tp,
        topic_id=topic_id,
        replicas=tuple(found.replica_nodes),
        isr=tuple(found.isr_nodes),
        leader=found.leader_id if found.leader_id >= 0 else None,
        leader_epoch=found.leader_epoch if found.leader_epoch >= 0 else None,
        offline=tuple(found.offline_replicas),
        elr=None if elr is None else tuple(elr),
    )


_DEBUGGING_REPLICA = -2
"""Kafka's "debugging consumer": followers answer it too, and leaders report their log end."""

LATEST = -1
EARLIEST_LOCAL = -4  # the first offset on the broker's disk; on a tiered topic not the log start
_SINCE = 8  # the version that knows it


def offsets_request(
    partitions: Collection[TopicPartition], timestamp: int, timeout_s: float
) -> Any:
    """Build a request for ends (LATEST) or starts (EARLIEST_LOCAL): it names a partition once."""
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
