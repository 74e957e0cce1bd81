"""Requests for brokers, topics and partitions, and metadata proven no older than a given moment.

DescribeQuorum reports the end of the leading controller's log. ApiVersions reports how far a
broker has read that log: in KRaft its finalized features' epoch is the offset of the last record
in the metadata that the broker answers from (measured with 3.9 to 4.3).

The controller answers a change once the change is committed. Its list of reassignments is ahead of
that: a partition leaves the list as soon as the controller has decided that the reassignment is
over. The record of that decision may still wait to be written. So ktui waits a moment, and then
takes the end of the log.
"""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin.cluster import DescribeClusterRequest, DescribeQuorumRequest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse

from ktui.cluster.broker import Broker
from ktui.cluster.errors import (
    Failure,
    Means,
    NotAuthorized,
    Operation,
    TimedOut,
    Unreachable,
    Unsupported,
    means,
)
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterDescription, TopicsAnswer
from ktui.cluster.text import clean
from ktui.kafka.transport.batches import by_topic
from ktui.kafka.transport.client import RequestFactory, Wire
from ktui.kafka.transport.translate_errors import (
    FIRST_S,
    Purpose,
    describe_error,
    describe_refusal,
    name_of,
)

PAGE = 2_000  # partitions; brokers cap it at max.request.partition.size.limit, 2,000 by default
_WITH_FENCED = 2  # DescribeCluster lists fenced brokers from this version on (KIP-1073)
_NEEDED = {Operation.TOPIC_CONFIGS: "DescribeConfigs"}
_NO_ID = uuid.UUID(int=0)


cluster_request = partial(DescribeClusterRequest, include_fenced_brokers=True)
"""Builds the request for the brokers, including fenced ones where supported (4.0 and later)."""


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
    answer = describe_refusal(code, message, needs)
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
                    errors[tp] = name_of(found.error_code)
                else:
                    offsets[tp] = found.offset
    return offsets


_QUORUM = Purpose("asking how far the controllers' log is", needs="Describe on the cluster")
_PROGRESS = Purpose("asking how far a broker has read the controllers' log")

WITHIN_S = 5.0  # seconds to wait, at most, for a controller's answer and for a broker to catch up
_LINGER_S = 0.05  # longer than controller.quorum.append.linger.ms, 25 ms
_ONE_BROKER_WITHIN_S = 2.0
_PAUSE_S = 0.02
_PROGRESS_LIMIT_S = 1.0  # for a broker to report how far it has read; another may be as far
versions_request = partial(
    ApiVersionsRequest, client_software_name="ktui", client_software_version="0", min_version=3
)


class UpToDateBrokers:
    """The brokers that know the record at `offset`, the last that was decided by some moment."""

    def __init__(self, wire: Wire, offset: int) -> None:
        self._wire = wire
        self._offset = offset
        self._broker: int | None = None
        """A broker that has caught up; a broker's metadata never goes back."""

    @classmethod
    async def as_of_now(cls, wire: Wire) -> UpToDateBrokers:
        """Return the brokers up to date as of now; Unsupported if the log's end is not reported."""
        try:
            await asyncio.sleep(_LINGER_S)
            return cls(wire, await _last_record(wire))
        except NotAuthorized as denied:
            raise Unsupported(
                _QUORUM.attempted, where=denied.where, answer=denied.answer, fix=denied.fix
            ) from denied

    async def ask(self, purpose: Purpose, build: RequestFactory) -> Any:
        """Send a read to an up-to-date broker, and to another one if that fails."""
        most_s = self._wire.timeout_s
        until_s = time.monotonic() + most_s
        limit_s = min(FIRST_S, most_s)
        while True:
            if self._broker is None:
                self._broker = await self._find()
            try:
                return await self._wire.ask(purpose, build, broker=self._broker, limit_s=limit_s)
            except (Unreachable, TimedOut):
                if time.monotonic() >= until_s:
                    raise
            self._broker = None
            limit_s = min(2 * limit_s, most_s)

    async def wait_for(self, broker: int) -> None:
        until_s = time.monotonic() + _ONE_BROKER_WITHIN_S
        while await self._metadata_offset(broker) < self._offset:
            if time.monotonic() >= until_s:
                answer = (
                    f"it has not read up to record {self._offset} within {_ONE_BROKER_WITHIN_S:g} s"
                )
                raise TimedOut(_PROGRESS.attempted, where=f"broker {broker}", answer=answer)
            await asyncio.sleep(_PAUSE_S)

    async def _find(self) -> int:
        limit_s = min(WITHIN_S, self._wire.timeout_s)
        until_s = time.monotonic() + limit_s
        while time.monotonic() < until_s:
            for best in (await self._wire.broker_ids())[:1]:
                if await self._is_up_to_date(best):
                    return best
            await asyncio.sleep(_PAUSE_S)
        answer = f"no broker has read up to record {self._offset} within {limit_s:g} s"
        raise TimedOut("waiting for fresh metadata", answer=answer)

    async def _is_up_to_date(self, broker: int) -> bool:
        try:
            return await self._metadata_offset(broker) >= self._offset
        except (Unreachable, TimedOut):
            return False

    async def _metadata_offset(self, broker: int) -> int:
        answer = await self._wire.ask(
            _PROGRESS, versions_request, broker=broker, limit_s=_PROGRESS_LIMIT_S
        )
        offset = answer.finalized_features_epoch
        if offset is None or offset < 0:
            raise Unsupported(
                _PROGRESS.attempted, where=f"broker {broker}", fix="Upgrade the brokers"
            )
        return int(offset)


async def _last_record(wire: Wire) -> int:
    until_s = time.monotonic() + min(WITHIN_S, wire.timeout_s)
    while True:
        log = (await wire.ask(_QUORUM, quorum_request)).topics[0].partitions[0]
        end = max((voter.log_end_offset for voter in log.current_voters), default=-1)
        if not log.error_code and end > 0:
            return int(end) - 1
        if time.monotonic() >= until_s:
            code = log.error_code
            answer = describe_error(code, None) if code else "no controller leads yet"
            raise TimedOut(_QUORUM.attempted, answer=answer)
        await asyncio.sleep(_PAUSE_S)  # a controller failover is under way


def quorum_request() -> Any:
    """Build a request for the state of the controllers' log, with their addresses."""
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    return DescribeQuorumRequest(
        topics=[topic(topic_name="__cluster_metadata", partitions=[partition])]
    )


_CONTROLLERS = 2  # DescribeCluster's number for the endpoints of controllers
_FIND = Purpose("looking for the controllers", needs="Describe on the cluster")
describe_request = partial(DescribeClusterRequest, endpoint_type=_CONTROLLERS, min_version=1)
"""Builds the request that asks a controller for the cluster's id and all controllers."""


class ControllerWire(Wire):
    """The connections to the controllers of a cluster."""

    def _hello(self) -> Any:
        return describe_request()

    def _check_cluster(self, purpose: Purpose, hello: Any) -> None:
        if hello.error_code:  # a broker answers MISMATCHED_ENDPOINT_TYPE, without a cluster id
            raise Unsupported(
                purpose.attempted,
                where=", ".join(self.connection.bootstrap_servers),
                answer=describe_error(hello.error_code, hello.error_message),
                fix="Name a controller there, not a broker",
            )
        super()._check_cluster(purpose, hello)

    def _take_nodes(self, answer: Any) -> None:
        nodes = [
            MetadataResponse.MetadataResponseBroker(n.broker_id, n.host, n.port, None, version=1)
            for n in answer.brokers
        ]
        metadata = MetadataResponse(version=1, brokers=nodes, controller_id=-1, topics=[])
        self._pool.cluster.update_metadata(metadata)


async def find_controllers(wire: Wire) -> str:
    """Return the controllers' addresses, as brokers name them: `host:port,...`."""
    answer = await wire.ask(_FIND, quorum_request)
    listeners = [node.listeners[0] for node in answer.nodes or () if node.listeners]
    if not listeners:
        raise Unsupported(
            _FIND.attempted,
            answer="brokers do not report their addresses",
            fix="Name one with --bootstrap-controller",
        )
    return ",".join(_address(clean(each.host), each.port) for each in listeners)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
