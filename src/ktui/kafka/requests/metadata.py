"""Brokers, topics and partitions: the requests that ask for them and what the answers say."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest
from kafka.protocol.metadata import MetadataRequest

from ktui.cluster.broker import Broker
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterDescription, TopicsAnswer
from ktui.cluster.text import clean
from ktui.kafka.transport import error_codes

PAGE = 2_000
"""Partitions a page; brokers cap it by max.request.partition.size.limit, 2,000 by default."""


def cluster_request() -> Any:
    """Ask for the brokers, fenced ones too where the broker tells (4.1 and later)."""
    return DescribeClusterRequest(include_fenced_brokers=True)


def cluster_description(answer: Any, *, waits_for_kept: bool) -> ClusterDescription:
    """Read a DescribeCluster answer."""
    brokers = {b.broker_id: _broker(b) for b in answer.brokers}
    controller = answer.controller_id if answer.controller_id >= 0 else None
    cluster_id = clean(answer.cluster_id)
    return ClusterDescription(cluster_id, controller, brokers, waits_for_kept)


def _broker(told: Any) -> Broker:
    return Broker(
        id=told.broker_id,
        host=clean(told.host or ""),
        port=told.port,
        rack=None if told.rack is None else clean(told.rack),
        alive=not told.is_fenced,
    )


def page_request(names: Sequence[str], cursor: Any, limit: int = PAGE) -> Any:
    """Ask for one page of partitions (KIP-966); no names means every topic."""
    request = DescribeTopicPartitionsRequest
    start = cursor and request.Cursor(
        topic_name=cursor.topic_name, partition_index=cursor.partition_index
    )
    topics = [request.TopicRequest(name=name) for name in names]
    return request(topics=topics, response_partition_limit=limit, cursor=start)


def names_from(names: Sequence[str], cursor: Any) -> list[str]:
    """Leave out the topics that earlier pages have told in full; brokers go by name."""
    return [n for n in names if cursor is None or n >= cursor.topic_name]


def metadata_request(names: Collection[str] | None) -> Any:
    """Ask as brokers before 3.8 can be asked; None means every topic."""
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
        if topic.error_code in error_codes.ABSENT:
            absent.add(name)
        elif topic.error_code:
            failures.append(topic_failure(Operation.METADATA, name, topic.error_code, None))
        else:
            topic_id = shown_id(topic.topic_id)
            for told in topic.partitions:
                state = _partition(TopicPartition(name, told.partition_index), topic_id, told)
                partitions[state.tp] = state
    return TopicsAnswer(partitions, frozenset(absent), tuple(failures))


def merged(answers: Iterable[TopicsAnswer]) -> TopicsAnswer:
    """Join the pages of one question."""
    partitions: dict[TopicPartition, PartitionState] = {}
    absent: set[str] = set()
    failures: list[Failure] = []
    for answer in answers:
        partitions.update(answer.partitions)
        absent |= answer.absent
        failures += answer.failures
    return TopicsAnswer(partitions, frozenset(absent), tuple(failures))


def topic_failure(operation: Operation, topic: str, code: int, message: str | None) -> Failure:
    """Say that one topic's part of an answer is missing."""
    needs = f"{_NEEDED.get(operation, 'Describe')} on topic {topic}"
    answer = error_codes.refused(code, message, needs)
    return Failure(operation, answer, topic=topic, denied=code in error_codes.DENIED)


_NEEDED = {Operation.TOPIC_CONFIGS: "DescribeConfigs"}
"""The permission for what is read of a topic, where it is not Describe."""


def shown_id(topic_id: uuid.UUID | None) -> str | None:
    """Spell a topic id as Kafka's tools do; None for the zero id of brokers without any."""
    if topic_id is None or topic_id == _NO_ID:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")


_NO_ID = uuid.UUID(int=0)


def _partition(tp: TopicPartition, topic_id: str | None, told: Any) -> PartitionState:
    elr = getattr(told, "eligible_leader_replicas", None)
    return PartitionState(
        tp=tp,
        topic_id=topic_id,
        replicas=tuple(told.replica_nodes),
        isr=tuple(told.isr_nodes),
        leader=told.leader_id if told.leader_id >= 0 else None,
        leader_epoch=told.leader_epoch if told.leader_epoch >= 0 else None,
        offline=tuple(told.offline_replicas),
        elr=None if elr is None else tuple(elr),
    )
