"""Metadata that is known to be fresh, from brokers that are late, down, or do not report it."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumResponse, DescribeTopicPartitionsResponse
from kafka.protocol.metadata import ApiVersionsResponse

from ktui.cluster.errors import NotAuthorized, TimedOut, Unreachable, Unsupported
from ktui.cluster.partition import TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.transport.client import RequestFactory
from ktui.kafka.transport.translate_errors import Purpose

LEADER, FOLLOWER = 100, 101
NOT_LEADER = 6
ORDERS = TopicPartition("orders", 0)


def quorum(*, end: int = 43, committed: int = 43, code: int = 0) -> Any:
    topic = DescribeQuorumResponse.TopicData
    partition = topic.PartitionData
    ends = () if code else ((FOLLOWER, end - 3), (LEADER, end))
    voters = [
        partition.ReplicaState(version=2, replica_id=voter, log_end_offset=at) for voter, at in ends
    ]
    described = partition(
        version=2,
        partition_index=0,
        error_code=code,
        leader_id=LEADER,
        high_watermark=committed,
        current_voters=voters,
    )
    topics = [topic(version=2, topic_name="__cluster_metadata", partitions=[described])]
    return DescribeQuorumResponse(version=2, error_code=0, topics=topics)


def page(replicas: list[int], *, last: bool = True) -> Any:
    """A page of a topic whose partition has these replicas."""
    answer = DescribeTopicPartitionsResponse
    topic = answer.DescribeTopicPartitionsResponseTopic
    partition = topic.DescribeTopicPartitionsResponsePartition(
        version=0,
        error_code=0,
        partition_index=0 if last else 1,
        leader_id=1,
        leader_epoch=0,
        replica_nodes=replicas,
        isr_nodes=replicas,
        offline_replicas=[],
    )
    cursor = answer.Cursor(version=0, topic_name="orders", partition_index=1)
    return answer(
        version=0,
        topics=[topic(version=0, error_code=0, name="orders", partitions=[partition])],
        next_cursor=None if last else cursor,
    )


class Brokers:
    """Brokers by id, each with how far it has read the log; they read on at every request."""

    timeout_s = 0.2

    def __init__(self, **read: int) -> None:
        self.read = {int(name.removeprefix("b")): at for name, at in read.items()}
        self.quorums = [quorum()]
        self.pages = [page([2, 1])]
        self.down: set[int] = set()
        self.asked: Counter[str] = Counter()
        self.pages_from: list[int | None] = []
        self.before_page: Callable[[int | None], None] = lambda _: None

    async def broker_ids(self) -> list[int]:
        return sorted(self.read, key=lambda broker: (broker in self.down, broker))

    async def ask(
        self,
        purpose: Purpose,
        build: RequestFactory,
        *,
        broker: int | None = None,
        limit_s: float | None = None,
    ) -> Any:
        del limit_s
        kind = type(build()).__name__
        self.asked[kind] += 1
        if kind == "DescribeTopicPartitionsRequest":
            self.before_page(broker)
        if broker in self.down:
            raise Unreachable(purpose.attempted)
        return getattr(self, kind)(broker)

    def DescribeQuorumRequest(self, broker: int | None) -> Any:  # noqa: N802 - by the request's name
        assert broker is None
        answer = self.quorums.pop(0) if len(self.quorums) > 1 else self.quorums[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ApiVersionsRequest(self, broker: int | None) -> Any:  # noqa: N802 - by the request's name
        assert broker is not None
        at = self.read[broker]
        if at >= 0:
            self.read[broker] += 1
        return ApiVersionsResponse(
            version=4, error_code=0, api_keys=[], finalized_features_epoch=at
        )

    def DescribeTopicPartitionsRequest(self, broker: int | None) -> Any:  # noqa: N802 - as above
        self.pages_from.append(broker)
        return self.pages.pop(0)


def reader(brokers: Brokers) -> KafkaReader:
    return KafkaReader(Connection.to("127.0.0.1:1"), wire=brokers)  # type: ignore[arg-type] # a fake


async def replicas(brokers: Brokers) -> tuple[int, ...]:
    described = await reader(brokers).describe_topics(["orders"], fresh=True)
    return described.partitions[ORDERS].replicas


async def test_fresh_metadata_comes_from_a_broker_that_has_read_the_whole_log() -> None:
    brokers = Brokers(b1=42)

    assert await replicas(brokers) == (2, 1)

    assert brokers.pages_from == [1]


async def test_a_broker_that_is_behind_is_waited_for() -> None:
    brokers = Brokers(b1=39)

    assert await replicas(brokers) == (2, 1)

    assert brokers.asked["ApiVersionsRequest"] == 4


async def test_uncommitted_records_of_the_controller_are_waited_for() -> None:
    brokers = Brokers(b1=41)
    brokers.quorums = [quorum(end=43, committed=42)]

    await replicas(brokers)

    assert brokers.asked["ApiVersionsRequest"] == 2


async def test_a_broker_that_is_down_is_skipped() -> None:
    brokers = Brokers(b1=42, b2=42)
    brokers.down = {1}

    assert await replicas(brokers) == (2, 1)

    assert brokers.pages_from == [2]


async def test_all_pages_come_from_brokers_that_have_caught_up() -> None:
    brokers = Brokers(b1=42, b2=40)
    brokers.pages = [page([2, 1], last=False), page([3, 1])]

    def die_before_the_second_page(_broker: int | None) -> None:
        if brokers.pages_from:
            brokers.down = {1}

    brokers.before_page = die_before_the_second_page

    described = await reader(brokers).describe_topics(["orders"], fresh=True)

    assert len(described.partitions) == 2
    assert brokers.pages_from == [1, 2]
    assert brokers.read[2] > 42


async def test_a_broker_is_not_tested_again_for_every_page() -> None:
    brokers = Brokers(b1=42)
    brokers.pages = [page([2, 1], last=False), page([3, 1])]

    await reader(brokers).describe_topics(["orders"], fresh=True)

    assert brokers.asked["ApiVersionsRequest"] == 1


async def test_the_next_controller_is_waited_for_during_a_failover() -> None:
    brokers = Brokers(b1=42)
    brokers.quorums = [quorum(code=NOT_LEADER), quorum(end=-1, committed=-1), quorum()]

    assert await replicas(brokers) == (2, 1)


async def test_a_cluster_without_a_controller_times_out() -> None:
    brokers = Brokers(b1=42)
    brokers.quorums = [quorum(code=NOT_LEADER)]

    with pytest.raises(TimedOut, match="NOT_LEADER_OR_FOLLOWER"):
        await replicas(brokers)


async def test_brokers_that_stay_behind_time_out() -> None:
    brokers = Brokers(b1=0)

    with pytest.raises(TimedOut, match="no broker has read up to record 42"):
        await replicas(brokers)

    assert brokers.pages_from == []


async def test_a_denied_freshness_check_is_unsupported_and_names_the_grant() -> None:
    brokers = Brokers(b1=42)
    denied = NotAuthorized("asking", answer="CLUSTER_AUTHORIZATION_FAILED", fix="Grant Describe")
    brokers.quorums = [denied]

    with pytest.raises(Unsupported, match=r"CLUSTER_AUTHORIZATION_FAILED.*Grant Describe"):
        await replicas(brokers)


async def test_brokers_that_do_not_report_their_progress_are_unsupported() -> None:
    brokers = Brokers(b1=-1)

    with pytest.raises(Unsupported, match="broker 1"):
        await replicas(brokers)


async def test_an_ordinary_poll_asks_only_for_the_topics() -> None:
    brokers = Brokers(b1=42)

    await reader(brokers).describe_topics(["orders"])

    assert brokers.asked == {"DescribeTopicPartitionsRequest": 1}
    assert brokers.pages_from == [None]


async def test_thousands_of_topics_are_asked_for_in_batches() -> None:
    brokers = Brokers(b1=42)
    brokers.pages = [page([2, 1]) for _ in range(3)]

    await reader(brokers).describe_topics([f"topic-{n}" for n in range(2_500)])

    assert brokers.asked["DescribeTopicPartitionsRequest"] == 3
