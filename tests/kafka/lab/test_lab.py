"""A lab is a real Kafka: it starts, breaks and heals; it has data, throttles and users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AdminClient,
    ConfigResource,
    NewTopic,
)

from ktui.cli.lab import connect
from ktui.cluster.errors import Refused
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, OffsetsAnswer
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab import control, nodes, security
from ktui.lab.layout import Lab, WrongInput
from support.contract.world import until
from support.kafka.labs import Outage


@pytest.fixture
async def reader(lab: Lab) -> AsyncIterator[ClusterReader]:
    reader = connect(security.librdkafka_settings(lab))
    yield reader
    await reader.aclose()


async def have_alive(reader: ClusterReader, brokers: set[int]) -> None:
    """Wait until these brokers are alive, and no others."""

    async def so() -> bool:
        return {*(await reader.describe_cluster()).online} == brokers

    await until(so)


async def test_a_lab_has_five_brokers_in_three_racks_on_this_machine_only(
    lab: Lab, reader: ClusterReader
) -> None:
    cluster = await reader.describe_cluster()
    racks = {broker.id: broker.rack for broker in cluster.brokers.values()}
    assert racks == {1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}
    assert {broker.host for broker in cluster.brokers.values()} == {"127.0.0.1"}
    assert cluster.cluster_id == lab.layout.cluster_id


async def test_brokers_that_are_killed_and_suspended_leave_the_cluster_and_come_back_after_it(
    lab: Lab, reader: ClusterReader, outage: Outage
) -> None:
    outage.kill(3)
    outage.suspend(2)
    states = {node.node.id: node.state for node in control.status(lab)}
    assert states[2] is control.NodeState.SUSPENDED
    await have_alive(reader, {1, 4, 5})
    await asyncio.to_thread(outage.mend)
    await have_alive(reader, {1, 2, 3, 4, 5})


T = TypeVar("T")


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection.to(bootstrap)


def ask(connection: Connection, question: Callable[[KafkaReader], Awaitable[T]]) -> T:
    async def answer() -> T:
        reader = KafkaReader(connection)
        try:
            return await question(reader)
        finally:
            await reader.aclose()

    return asyncio.run(answer())


def ends_at(connection: Connection, broker: int, topic: str, partitions: int) -> list[int]:
    tps = [TopicPartition(topic, number) for number in range(partitions)]

    async def offsets(reader: KafkaReader) -> OffsetsAnswer:
        await reader.describe_cluster()
        return await reader.log_offsets(broker, ends=tps)

    answer = ask(connection, offsets)
    return [answer.ends[tp] for tp in tps]


def test_a_created_topic_has_the_requested_replicas_and_data(
    connection: Connection, topic_name: str
) -> None:
    replicas = workload.assign_round_robin(3, 2, [1, 2, 3])
    assert replicas == [[1, 2], [2, 3], [3, 1]]
    workload.create_topic(connection, topic_name, replicas, settings={"min.insync.replicas": "2"})
    written = workload.fill(connection, topic_name, [0, 2], bytes_each=10_001, message_bytes=1000)
    assert written == 11

    topics = ask(connection, lambda reader: reader.describe_topics([topic_name]))
    found = [topics.partitions[TopicPartition(topic_name, n)].replicas for n in range(3)]
    assert found == [(1, 2), (2, 3), (3, 1)]
    assert ends_at(connection, 1, topic_name, 1) == [11]
    workload.delete_topics(connection, [topic_name])


def test_a_refused_topic_raises_the_error_of_the_cluster(
    connection: Connection, topic_name: str
) -> None:
    with pytest.raises(Refused) as refused:
        workload.create_topic(connection, topic_name, [[1, 99]])
    assert refused.value.code == "INVALID_REPLICA_ASSIGNMENT"
    assert topic_name in str(refused.value)


def test_a_steady_producer_writes_to_every_partition_until_it_is_closed(
    connection: Connection, topic_name: str
) -> None:
    workload.create_topic(connection, topic_name, [[1], [1]])
    with workload.SteadyProducer(connection, topic_name, 2, messages_s=500) as producer:
        assert nodes.wait_for(lambda: producer.acknowledged > 100, seconds=60)
    assert producer.failed == 0
    first, second = ends_at(connection, 1, topic_name, 2)
    assert first + second == producer.acknowledged
    assert abs(first - second) <= 1
    workload.delete_topics(connection, [topic_name])


def test_a_throttle_is_set_for_the_named_replicas_and_removed(
    connection: Connection, topic_name: str
) -> None:
    workload.create_topic(connection, topic_name, [[1, 2], [2, 3]])
    slow = [Replica(TopicPartition(topic_name, 0), 2), Replica(TopicPartition(topic_name, 1), 3)]

    def lists() -> str:
        answer = ask(connection, lambda reader: reader.topic_configs([topic_name]))
        return answer.configs[topic_name].follower_throttled_replicas

    def rate(broker: int) -> int | None:
        answer = ask(connection, lambda reader: reader.broker_config(broker))
        return answer.follower_throttle_rate

    try:
        workload.throttle_followers(connection, slow, bytes_s=123_456)
        set_to = ("0:2,1:3", 123_456, 123_456)
        assert nodes.wait_for(lambda: (lists(), rate(2), rate(3)) == set_to, seconds=30)
    finally:
        workload.remove_throttles(connection, slow)
    assert nodes.wait_for(lambda: (lists(), rate(2), rate(3)) == ("", None, None), seconds=30)
    workload.delete_topics(connection, [topic_name])


NO_PERMISSION = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def admin_client(settings: dict[str, str]) -> AdminClient:
    return AdminClient({**settings, "socket.timeout.ms": 20_000, "log_level": 0})


def brokers_seen(settings: dict[str, str]) -> set[int]:
    return set(admin_client(settings).list_topics(timeout=20).brokers)


def create(settings: dict[str, str], topic: str) -> None:
    client = admin_client(settings)
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)


def refusal_to_create(settings: dict[str, str], topic: str) -> int:
    with pytest.raises(KafkaException) as refused:
        create(settings, topic)
    return int(refused.value.args[0].code())


def topics_seen(settings: dict[str, str]) -> set[str]:
    return set(admin_client(settings).list_topics(timeout=20).topics)


def wait_until_visible(settings: dict[str, str], topic: str) -> bool:
    """Wait until a user sees a topic: not all brokers learn of a new one at once."""
    return nodes.wait_for(lambda: topic in topics_seen(settings), seconds=60)


def broker_settings_seen(settings: dict[str, str]) -> dict[str, object]:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    client = admin_client(settings)
    found: dict[str, object] = client.describe_configs([resource])[resource].result(20)
    return found


@pytest.fixture(params=["secured_lab", "ssl_lab"])
def secured(request: pytest.FixtureRequest, secured_lab: Lab, ssl_lab: Lab) -> Lab:
    """Each of the secured labs, in turn."""
    return secured_lab if request.param == "secured_lab" else ssl_lab


def test_the_admin_may_do_everything(secured: Lab, topic_name: str) -> None:
    settings = security.librdkafka_settings(secured, "admin")
    create(settings, topic_name)
    assert wait_until_visible(settings, topic_name)


def test_the_viewer_may_read_but_not_write(secured: Lab, topic_name: str) -> None:
    create(security.librdkafka_settings(secured, "admin"), topic_name)
    viewer = security.librdkafka_settings(secured, "viewer")
    assert wait_until_visible(viewer, topic_name)
    assert "min.insync.replicas" in broker_settings_seen(viewer)
    assert refusal_to_create(viewer, f"{topic_name}-2") in NO_PERMISSION


def test_the_user_nobody_can_log_in_but_do_nothing(secured: Lab, topic_name: str) -> None:
    create(security.librdkafka_settings(secured, "admin"), topic_name)
    nobody = security.librdkafka_settings(secured, "nobody")
    assert brokers_seen(nobody) == {node.id for node in secured.brokers}
    assert topic_name not in topics_seen(nobody)
    assert refusal_to_create(nobody, f"{topic_name}-2") in NO_PERMISSION


def test_plain_logs_in_like_scram(secured_lab: Lab) -> None:
    settings = {**security.librdkafka_settings(secured_lab, "viewer"), "sasl.mechanism": "PLAIN"}
    assert brokers_seen(settings) == {1, 2}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_rejected(secured_lab: Lab, mechanism: str) -> None:
    settings = security.librdkafka_settings(secured_lab, "admin")
    settings |= {"sasl.mechanism": mechanism, "sasl.password": "wrong"}
    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=5)


def test_an_authority_of_another_lab_is_not_trusted(secured_lab: Lab, ssl_lab: Lab) -> None:
    settings = security.librdkafka_settings(secured_lab, "admin")
    settings["ssl.ca.location"] = security.librdkafka_settings(ssl_lab, "admin")["ssl.ca.location"]
    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=5)


def test_a_client_without_a_certificate_can_connect_but_do_nothing(
    ssl_lab: Lab, topic_name: str
) -> None:
    settings = security.librdkafka_settings(ssl_lab, "admin")
    anonymous = {k: v for k, v in settings.items() if not k.startswith(("ssl.cert", "ssl.key"))}
    assert refusal_to_create(anonymous, topic_name) in NO_PERMISSION


@pytest.mark.parametrize("user", ["admin", "viewer", "nobody"])
async def test_the_client_file_of_each_user_connects_ktui(secured: Lab, user: str) -> None:
    from_file = Connection.of(command_config=secured.client_file(user))
    assert ",".join(from_file.bootstrap_servers) == secured.bootstrap_servers
    assert brokers_seen(from_file.for_confluent()) == {node.id for node in secured.brokers}


def test_an_unknown_user_is_refused_with_the_existing_ones(secured_lab: Lab) -> None:
    with pytest.raises(WrongInput, match=r"no user 'root'.*admin, viewer, nobody"):
        security.librdkafka_settings(secured_lab, "root")
