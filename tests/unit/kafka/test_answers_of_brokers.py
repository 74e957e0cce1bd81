"""Answers of brokers, parsed into ktui's types: also those that no healthy cluster gives."""

import uuid

import pytest
from kafka.protocol.admin import (
    AlterReplicaLogDirsResponse,
    CreatePartitionsResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import MetadataResponse

from ktui.cluster.broker import Broker, BrokerConfig, FutureReplica, LogDir, ReplicaDir, TopicConfig
from ktui.cluster.errors import NotAuthorized, Operation, Refused, TimedOut, Unsupported
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.kafka.requests import configs as settings
from ktui.kafka.requests import metadata, reassignments
from ktui.kafka.transport.batches import by_topic, chunks
from ktui.kafka.transport.translate_errors import Purpose, name_of

ID = uuid.UUID(bytes=b"\xfb\xff\xbe" + bytes(13))


def test_fenced_brokers_are_listed_as_not_alive() -> None:
    broker = DescribeClusterResponse.DescribeClusterBroker
    answer = DescribeClusterResponse(
        version=2,
        cluster_id="abc\x1b[2J",
        controller_id=-1,
        brokers=[
            broker(broker_id=1, host="a", port=9092, rack="r\x07", is_fenced=False, version=2),
            broker(broker_id=2, host="", port=-1, rack=None, is_fenced=True, version=2),
        ],
    )

    described = metadata.cluster_description(answer)

    assert described.cluster_id == r"abc\x1b[2J"
    assert described.controller is None
    assert described.brokers == {
        1: Broker(1, "a", 9092, r"r\x07"),
        2: Broker(2, "", -1, None, alive=False),
    }


def test_a_partition_without_a_leader_is_parsed() -> None:
    topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    partition = topic.DescribeTopicPartitionsResponsePartition
    answer = topic(
        version=0,
        error_code=0,
        name="orders",
        topic_id=ID,
        is_internal=False,
        partitions=[
            partition(
                version=0,
                error_code=5,
                partition_index=0,
                leader_id=-1,
                leader_epoch=-1,
                replica_nodes=[1, 99],
                isr_nodes=[],
                eligible_leader_replicas=[99],
                last_known_elr=[],
                offline_replicas=[1, 99],
            )
        ],
    )

    described = metadata.topics_answer([answer])

    tp = TopicPartition("orders", 0)
    assert described.partitions[tp] == PartitionState(
        tp=tp,
        topic_id="-_--AAAAAAAAAAAAAAAAAA",
        replicas=(1, 99),
        isr=(),
        leader=None,
        leader_epoch=None,
        offline=(1, 99),
        elr=(99,),
    )


def test_metadata_of_an_older_broker_is_parsed_without_its_unknown_fields() -> None:
    topic = MetadataResponse.MetadataResponseTopic
    answer = topic(
        version=9,
        error_code=0,
        name="orders",
        partitions=[
            topic.MetadataResponsePartition(
                version=9,
                error_code=0,
                partition_index=3,
                leader_id=2,
                leader_epoch=7,
                replica_nodes=[2, 1],
                isr_nodes=[2],
                offline_replicas=[],
            )
        ],
    )

    described = metadata.topics_answer([answer]).partitions[TopicPartition("orders", 3)]

    assert (described.topic_id, described.elr) == (None, None)
    assert (described.replicas, described.isr, described.leader, described.leader_epoch) == (
        (2, 1),
        (2,),
        2,
        7,
    )


def test_topics_that_cannot_be_described_are_sorted_by_reason() -> None:
    topic = MetadataResponse.MetadataResponseTopic
    answers = [
        topic(version=9, error_code=code, name=name, partitions=[])
        for name, code in (("gone", 3), ("secret", 29), ("odd\u202e", 17), ("busy", -1))
    ]

    described = metadata.topics_answer(answers)

    assert described.absent == {"gone"}
    assert [(f.topic, f.answer.partition(" to this")[0], f.denied) for f in described.failures] == [
        ("secret", "TOPIC_AUTHORIZATION_FAILED. Grant Describe on topic secret", True),
        (r"odd\u202e", "INVALID_TOPIC_EXCEPTION", False),
        ("busy", "UNKNOWN_SERVER_ERROR", False),
    ]
    assert {f.operation for f in described.failures} == {Operation.METADATA}


def test_the_zero_topic_id_is_no_id() -> None:
    assert metadata.format_topic_id(uuid.UUID(int=0)) is None
    assert metadata.format_topic_id(None) is None


def test_later_pages_ask_for_the_remaining_topics() -> None:
    cursor = DescribeTopicPartitionsResponse.Cursor(topic_name="b", partition_index=5, version=0)

    assert metadata.remaining_names(["a", "b", "c"], None) == ["a", "b", "c"]
    assert metadata.remaining_names(["a", "b", "c"], cursor) == ["b", "c"]


def test_reassignments_are_parsed_in_the_order_of_the_controller() -> None:
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    partition = topic.OngoingPartitionReassignment
    answer = ListPartitionReassignmentsResponse(
        version=0,
        topics=[
            topic(
                version=0,
                name="t",
                partitions=[
                    partition(
                        version=0,
                        partition_index=0,
                        replicas=[4, 5, 3, 1, 2],
                        adding_replicas=[4, 5],
                        removing_replicas=[1, 2],
                    )
                ],
            )
        ],
    )

    assert reassignments.read_reassignments(answer) == {
        TopicPartition("t", 0): Reassignment((4, 5, 3, 1, 2), (4, 5), (1, 2))
    }


def test_log_dirs_are_parsed_with_sizes_failures_and_cordons() -> None:
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    topic = result.DescribeLogDirsTopic
    size = topic.DescribeLogDirsPartition
    answer = DescribeLogDirsResponse(
        version=5,
        error_code=0,
        results=[
            result(
                version=5,
                error_code=0,
                log_dir="/a",
                topics=[
                    topic(
                        version=5,
                        name="t",
                        partitions=[
                            size(
                                version=5, partition_index=0, partition_size=10, is_future_key=False
                            ),
                            size(
                                version=5, partition_index=1, partition_size=20, is_future_key=False
                            ),
                        ],
                    )
                ],
                total_bytes=100,
                usable_bytes=60,
                is_cordoned=True,
            ),
            result(
                version=5,
                error_code=0,
                log_dir="/b",
                topics=[
                    topic(
                        version=5,
                        name="t",
                        partitions=[
                            size(
                                version=5,
                                partition_index=0,
                                partition_size=7,
                                offset_lag=3,
                                is_future_key=True,
                            )
                        ],
                    )
                ],
                total_bytes=-1,
                usable_bytes=-1,
                is_cordoned=False,
            ),
            result(
                version=5,
                error_code=56,
                log_dir="/c\n",
                topics=[],
                total_bytes=-1,
                usable_bytes=-1,
                is_cordoned=False,
            ),
        ],
    )

    described = reassignments.read_log_dirs(3, answer, [TopicPartition("t", 0)])

    future = FutureReplica("/b", 7, offset_lag=3)
    assert described.replicas == {TopicPartition("t", 0): ReplicaDir("/a", 10, future)}
    assert described.sizes == {TopicPartition("t", 0): 10}
    assert described.log_dirs == (
        LogDir(3, "/a", None, 100, 60, cordoned=True),
        LogDir(3, "/b"),
        LogDir(3, r"/c\n", "KAFKA_STORAGE_ERROR"),
    )


def test_moves_between_log_dirs_are_grouped_by_path_and_answered_by_partition() -> None:
    orders, audit = (TopicPartition(name, 0) for name in ("orders", "audit"))
    request = reassignments.move_request(
        {orders: "/a", audit: "/b", TopicPartition("orders", 1): "/a"}
    )
    topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
    partition = topic.AlterReplicaLogDirPartitionResult
    answer = AlterReplicaLogDirsResponse(
        version=2,
        results=[
            topic(
                version=2,
                topic_name=name,
                partitions=[partition(version=2, partition_index=0, error_code=code)],
            )
            for name, code in (("orders", 0), ("audit", 9))
        ],
    )

    asked = {
        each.path: {topic.name: topic.partitions for topic in each.topics} for each in request.dirs
    }

    assert asked == {"/a": {"orders": [0, 1]}, "/b": {"audit": [0]}}
    assert [*reassignments.read_moves(answer)] == [(orders, 0, None), (audit, 9, None)]


def configs(**described: str | None) -> object:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult
    return result(
        version=4,
        error_code=0,
        configs=[
            config(version=4, name=name.replace("_", "."), value=value)
            for name, value in described.items()
        ],
    )


def test_partitions_refused_for_a_quota_are_answered_with_the_wait() -> None:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    answer = CreatePartitionsResponse(
        version=3,
        throttle_time_ms=8_256,
        results=[result(version=3, name="orders", error_code=89, error_message=None)],
    )

    ((topic, code, message),) = reassignments.read_create_results(answer)

    assert (topic, name_of(code)) == ("orders", "THROTTLING_QUOTA_EXCEEDED")
    assert message == (
        "the quota controller_mutation_rate of this user or client id is used up for 9 s"
    )


def test_settings_of_a_topic_are_parsed() -> None:
    described = configs(
        min_insync_replicas="2",
        cleanup_policy="compact,delete",
        remote_storage_enable="true",
        follower_replication_throttled_replicas="0:1,\x1b0:2",
    )

    assert settings.topic_config(described) == TopicConfig(
        2, compacted=True, tiered=True, follower_throttled_replicas=r"0:1,\x1b0:2"
    )


def test_unset_or_malformed_settings_of_a_broker_are_none() -> None:
    described = configs(
        leader_replication_throttled_rate="9223372036854775807",
        follower_replication_throttled_rate="1000000",
        replica_fetch_backoff_ms="soon",
        auto_leader_rebalance_enable="true",
        unclean_leader_election_enable=None,
    )

    assert settings.broker_config(described) == BrokerConfig(
        follower_throttle_rate=1_000_000, auto_leader_rebalance=True
    )


@pytest.mark.parametrize(
    ("code", "kind"), [(31, NotAuthorized), (35, Unsupported), (7, TimedOut), (42, Refused)]
)
def test_an_error_of_a_whole_call_is_typed_and_names_the_attempt(
    code: int, kind: type[Exception]
) -> None:
    purpose = Purpose("doing it", needs="Alter on the cluster")
    error = purpose.refusal(code, "said \x1b[1mso", "broker 3")

    assert type(error) is kind
    assert str(error).startswith("doing it (broker 3): ")
    assert r"said \x1b[1mso" in str(error)
    if kind is NotAuthorized:
        assert "Grant Alter on the cluster" in error.fix


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (38, "INVALID_REPLICATION_FACTOR"),
        (39, "INVALID_REPLICA_ASSIGNMENT"),
        (84, "ELECTION_NOT_NEEDED"),
        (85, "NO_REASSIGNMENT_IN_PROGRESS"),
        (12_345, "ERROR_12345"),
    ],
)
def test_error_codes_get_the_names_that_kafka_gives_them(code: int, name: str) -> None:
    assert name_of(code) == name


def test_partitions_are_grouped_by_topic_once_each_and_split_into_chunks() -> None:
    tps = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 1)]

    assert by_topic(tps) == {"b": [1], "a": [0]}
    assert [list(c) for c in chunks(range(5), 2)] == [[0, 1], [2, 3], [4]]
    assert list(chunks([], 2)) == []
