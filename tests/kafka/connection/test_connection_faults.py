"""What comes of calls when brokers die, hang, lose an answer, or are named otherwise by a proxy."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka.protocol.api_key import ApiKey

from ktui.cli.main import ktui
from ktui.cluster.errors import ClusterError, NotKafka, TimedOut, Unreachable
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Verdict
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from support.contract.world import RATE, RealWorld, hold_back, listed, setting, settled, until
from support.kafka.proxy import ProxiedCluster

SHORT_S = 2.0  # a call's limit in tests that wait for it to pass


@pytest.fixture
def proxied(lab: Lab) -> Iterator[ProxiedCluster]:
    with ProxiedCluster({node.id: ("127.0.0.1", node.port) for node in lab.brokers}) as cluster:
        yield cluster


@pytest.fixture
async def reader(proxied: ProxiedCluster) -> AsyncIterator[KafkaReader]:
    reader = KafkaReader(Connection.to(proxied.bootstrap_servers), timeout_s=SHORT_S)
    yield reader
    await reader.aclose()


@pytest.fixture
async def writer(proxied: ProxiedCluster) -> AsyncIterator[KafkaWriter]:
    writer = KafkaWriter(Connection.to(proxied.bootstrap_servers), timeout_s=SHORT_S)
    yield writer
    await writer.aclose()


@pytest.fixture
async def world(bootstrap: str) -> AsyncIterator[RealWorld]:
    """The same cluster, past the proxies."""
    world = RealWorld(Connection.to(bootstrap))
    yield world
    await world.aclose()


@pytest.fixture
async def tp(world: RealWorld, topic_name: str) -> TopicPartition:
    await world.create_topic(topic_name, [[2, 1, 3]])
    return TopicPartition(topic_name, 0)


async def test_a_view_of_everything_writes_nothing(
    proxied: ProxiedCluster, reader: KafkaReader, tp: TopicPartition
) -> None:
    await reader.describe_cluster()
    await reader.list_reassignments()
    await reader.describe_topics([tp.topic])
    assert [page async for page in reader.scan_topics()]
    await reader.log_offsets(1, ends=[tp], starts=[tp])
    await reader.log_dirs(1, [tp])
    await reader.topic_configs([tp.topic])
    await reader.broker_config(1)

    assert proxied.writes_seen == []
    assert proxied.seen[ApiKey.ListPartitionReassignments] == 1


class TestALostAnswer:
    async def test_leaves_an_alter_unknown_and_never_resends_it(
        self, proxied: ProxiedCluster, writer: KafkaWriter, world: RealWorld, tp: TopicPartition
    ) -> None:
        await world.append(tp, 4_000, 1_000)
        await hold_back(world, tp, 4)
        for proxy in proxied.brokers.values():
            proxy.lose.add(ApiKey.AlterPartitionReassignments)

        results = await writer.alter_reassignments(
            {tp: (2, 1, 4)}, allow_replication_factor_change=False
        )

        assert results[tp].verdict is Verdict.UNKNOWN
        assert "answer was lost" in results[tp].message
        assert results[tp].node in proxied.brokers  # the node to ask whether it is in progress
        assert proxied.seen[ApiKey.AlterPartitionReassignments] == 1
        moving = await listed(world, tp)
        assert moving is not None
        assert moving.adding == (4,)

    async def test_leaves_every_partition_of_its_request_unknown_but_sends_the_next_request(
        self, proxied: ProxiedCluster, writer: KafkaWriter, tp: TopicPartition
    ) -> None:
        many = [TopicPartition(tp.topic, p) for p in range(1_500)]
        for proxy in proxied.brokers.values():
            proxy.lose.add(ApiKey.AlterPartitionReassignments)

        results = await writer.alter_reassignments(
            dict.fromkeys(many), allow_replication_factor_change=True
        )

        assert {results[p].verdict for p in many} == {Verdict.UNKNOWN}
        assert proxied.seen[ApiKey.AlterPartitionReassignments] == 2

    async def test_leaves_an_election_unknown(
        self, proxied: ProxiedCluster, writer: KafkaWriter, tp: TopicPartition
    ) -> None:
        for proxy in proxied.brokers.values():
            proxy.lose.add(ApiKey.ElectLeaders)

        results = await writer.elect_preferred_leaders([tp])

        assert results[tp].verdict is Verdict.UNKNOWN
        assert proxied.seen[ApiKey.ElectLeaders] == 1

    async def test_leaves_a_move_between_log_dirs_unknown(
        self, proxied: ProxiedCluster, writer: KafkaWriter, tp: TopicPartition
    ) -> None:
        proxied.brokers[2].lose.add(ApiKey.AlterReplicaLogDirs)

        result = (await writer.alter_log_dirs(2, {tp: "/data"}))[tp]

        assert (result.verdict, result.node) == (Verdict.UNKNOWN, 2)
        assert proxied.seen[ApiKey.AlterReplicaLogDirs] == 1

    async def test_leaves_only_the_settings_of_its_own_request_unknown(
        self, proxied: ProxiedCluster, writer: KafkaWriter
    ) -> None:
        proxied.brokers[2].lose.add(ApiKey.IncrementalAlterConfigs)
        lost, kept = (
            setting(ConfigScope.BROKER, broker, RATE, ConfigOp.SET, "1000000")
            for broker in ("2", "3")
        )

        results = await writer.alter_configs([lost, kept])

        assert results[lost.resource].verdict is Verdict.UNKNOWN
        assert results[lost.resource].node == 2
        assert results[kept.resource].verdict is Verdict.ACCEPTED

    async def test_leaves_an_alter_unknown_when_the_answer_is_garbled(
        self, proxied: ProxiedCluster, writer: KafkaWriter, world: RealWorld, tp: TopicPartition
    ) -> None:
        for proxy in proxied.brokers.values():
            proxy.garble.add(ApiKey.AlterPartitionReassignments)

        results = await writer.alter_reassignments(
            {tp: (1, 2, 3)}, allow_replication_factor_change=False
        )

        assert results[tp].verdict is Verdict.UNKNOWN
        assert proxied.seen[ApiKey.AlterPartitionReassignments] == 1
        await settled(world, tp, (1, 2, 3))

    async def test_leaves_an_alter_unknown_when_the_broker_hangs(
        self, proxied: ProxiedCluster, writer: KafkaWriter, world: RealWorld, tp: TopicPartition
    ) -> None:
        await writer.alter_reassignments({tp: None}, allow_replication_factor_change=True)
        for proxy in proxied.brokers.values():
            proxy.hanging = True

        results = await writer.alter_reassignments(
            {tp: (1, 2, 3)}, allow_replication_factor_change=False
        )

        assert results[tp].verdict is Verdict.UNKNOWN
        await settled(world, tp, (1, 2, 3))


class TestAClosedConnection:
    async def test_does_not_affect_a_read(
        self, proxied: ProxiedCluster, reader: KafkaReader, tp: TopicPartition
    ) -> None:
        await reader.log_offsets(1, ends=[tp])
        proxied.brokers[1].cut.add(ApiKey.ListOffsets)

        answer = await reader.log_offsets(1, ends=[tp])

        assert answer.ends == {tp: 0}
        assert proxied.seen[ApiKey.ListOffsets] == 3

    async def test_moves_a_read_to_another_broker_that_can_answer(
        self, proxied: ProxiedCluster, reader: KafkaReader
    ) -> None:
        for proxy in proxied.brokers.values():
            proxy.cut.add(ApiKey.ListPartitionReassignments)
        proxied.brokers[4].cut.clear()

        assert await reader.list_reassignments() == {}

    async def test_is_reopened_after_being_idle(
        self, proxied: ProxiedCluster, reader: KafkaReader
    ) -> None:
        await reader.log_dirs(3, [])
        proxied.close_connections(3)

        assert (await reader.log_dirs(3, [])).log_dirs


class TestADeadBroker:
    async def test_is_named_and_the_others_are_not_affected(
        self, proxied: ProxiedCluster, reader: KafkaReader, tp: TopicPartition
    ) -> None:
        await reader.describe_cluster()
        proxied.kill(3)

        with pytest.raises(Unreachable, match=r"broker 3 at 127\.0\.0\.1") as caught:
            await reader.log_offsets(3, ends=[tp])

        assert caught.value.attempted == "reading log offsets"
        assert (await reader.log_offsets(1, ends=[tp])).ends == {tp: 0}
        for _ in range(20):
            assert tp in (await reader.describe_topics([tp.topic])).partitions

    async def test_refuses_its_own_settings_and_no_other_brokers(
        self, proxied: ProxiedCluster, writer: KafkaWriter, tp: TopicPartition
    ) -> None:
        await writer.elect_preferred_leaders([tp])
        proxied.kill(3)
        await writer.elect_preferred_leaders([tp])  # now the client has seen the connections close
        dead, alive = (
            setting(ConfigScope.BROKER, broker, RATE, ConfigOp.SET, "1000000")
            for broker in ("3", "4")
        )

        results = await writer.alter_configs([dead, alive])

        assert results[dead.resource].verdict is Verdict.REFUSED
        assert "not sent" in results[dead.resource].message
        assert results[alive.resource].verdict is Verdict.ACCEPTED

    async def test_raises_for_a_write_that_only_it_can_answer(
        self, proxied: ProxiedCluster, writer: KafkaWriter, tp: TopicPartition
    ) -> None:
        await writer.elect_preferred_leaders([tp])
        proxied.kill(3)
        await writer.elect_preferred_leaders([tp])

        with pytest.raises(Unreachable, match="broker 3"):
            await writer.alter_configs([setting(ConfigScope.BROKER, "3", RATE, ConfigOp.DELETE)])


class TestAHangingBroker:
    async def test_times_out_a_call_that_only_it_can_answer(
        self, proxied: ProxiedCluster, reader: KafkaReader, tp: TopicPartition
    ) -> None:
        await reader.describe_cluster()
        proxied.brokers[3].hanging = True

        slow = asyncio.create_task(reader.log_offsets(3, ends=[tp]))
        assert (await reader.log_offsets(1, ends=[tp])).ends == {tp: 0}
        assert not slow.done()
        with pytest.raises(TimedOut, match="broker 3"):
            await slow

    async def test_is_skipped_for_a_call_that_any_broker_can_answer(
        self, proxied: ProxiedCluster, reader: KafkaReader
    ) -> None:
        await reader.describe_cluster()
        for broker in (1, 2, 3, 4):
            proxied.brokers[broker].hanging = True

        async def answered() -> bool:
            try:
                return await reader.list_reassignments() == {}
            except TimedOut:
                return False

        assert await until(answered)

    async def test_times_out_when_no_other_broker_is_left(
        self, proxied: ProxiedCluster, reader: KafkaReader
    ) -> None:
        for proxy in proxied.brokers.values():
            proxy.hanging = True

        with pytest.raises((TimedOut, NotKafka)):
            await reader.list_reassignments()


async def test_a_lost_cluster_is_reached_again_when_it_is_back(
    proxied: ProxiedCluster, reader: KafkaReader
) -> None:
    await reader.describe_cluster()
    for broker in proxied.brokers:
        proxied.kill(broker)
    with pytest.raises(ClusterError):
        await reader.list_reassignments()

    for proxy in proxied.brokers.values():
        proxy.dead = False

    assert await reader.list_reassignments() == {}
    assert len((await reader.describe_cluster()).brokers) == 5


async def test_closing_ends_calls_in_flight_and_leaves_no_thread(
    proxied: ProxiedCluster, reader: KafkaReader
) -> None:
    await reader.describe_cluster()
    for proxy in proxied.brokers.values():
        proxy.hanging = True
    call = asyncio.create_task(reader.list_reassignments())

    async def under_way() -> bool:
        return proxied.seen[ApiKey.ListPartitionReassignments] > 0

    await until(under_way)
    await reader.aclose()

    with pytest.raises(ClusterError):
        await call
    assert not [t for t in threading.enumerate() if t.name.startswith("kafka-io")]


async def test_an_abandoned_call_sends_nothing_later(
    proxied: ProxiedCluster, writer: KafkaWriter, tp: TopicPartition
) -> None:
    for proxy in proxied.brokers.values():
        proxy.hanging = True

    with pytest.raises(ClusterError):
        await writer.alter_reassignments({tp: (1, 2, 3)}, allow_replication_factor_change=True)

    for proxy in proxied.brokers.values():
        proxy.hanging = False
    await writer.elect_preferred_leaders([tp])
    assert proxied.seen[ApiKey.AlterPartitionReassignments] == 0


class TestOlderBrokers:
    @pytest.fixture
    def before(self, lab: Lab) -> Iterator[ProxiedCluster]:
        """Brokers without the requests that came with 3.8 and 4.1."""
        highest = {
            ApiKey.AlterPartitionReassignments: 0,
            ApiKey.DescribeTopicPartitions: None,
            ApiKey.DescribeCluster: 1,
            ApiKey.DescribeLogDirs: 3,
        }
        addresses = {node.id: ("127.0.0.1", node.port) for node in lab.brokers}
        with ProxiedCluster(addresses, highest=highest) as cluster:
            yield cluster

    async def test_have_their_topics_described_by_older_requests(
        self, before: ProxiedCluster, tp: TopicPartition
    ) -> None:
        reader = KafkaReader(Connection.to(before.bootstrap_servers))
        try:
            absent = f"{tp.topic}-not-there"
            described = await reader.describe_topics([tp.topic, absent])
            scanned = [page async for page in reader.scan_topics()]
            cluster = await reader.describe_cluster()
            (log_dir,) = (await reader.log_dirs(1, [])).log_dirs
        finally:
            await reader.aclose()

        state = described.partitions[tp]
        assert (state.replicas, state.leader, state.elr) == ((2, 1, 3), 2, None)
        assert state.topic_id is not None
        assert described.absent == {absent}
        assert tp in {tp for page in scanned for tp in page.partitions}
        assert before.seen[ApiKey.DescribeTopicPartitions] == 0
        assert all(broker.alive for broker in cluster.brokers.values())
        assert log_dir.total_bytes is None

    async def test_have_the_replication_factor_guarded_by_ktui_itself(
        self, before: ProxiedCluster, world: RealWorld, tp: TopicPartition
    ) -> None:
        await world.append(tp, 4_000, 1_000)
        other, absent = f"{tp.topic}-b", TopicPartition(f"{tp.topic}-not-there", 0)
        await world.create_topic(other, [[1, 2, 3]])
        moving = TopicPartition(other, 0)
        await world.append(moving, 4_000, 1_000)
        await hold_back(world, moving, 4)
        await world.writer.alter_reassignments(
            {moving: (4, 2, 3)}, allow_replication_factor_change=False
        )
        writer = KafkaWriter(Connection.to(before.bootstrap_servers))
        try:
            results = await writer.alter_reassignments(
                {tp: (2, 1, 3, 4), moving: (4, 2, 3), absent: (1,)},
                allow_replication_factor_change=False,
            )
            assert await listed(world, tp) is None
            allowed = await writer.alter_reassignments(
                {tp: (2, 1, 3, 4)}, allow_replication_factor_change=True
            )
        finally:
            await writer.aclose()

        assert (results[tp].verdict, results[tp].code) == (
            Verdict.REFUSED,
            "INVALID_REPLICATION_FACTOR",
        )
        assert "from 3 to 4" in results[tp].message
        assert results[moving].verdict is Verdict.ACCEPTED
        assert results[absent].code == "UNKNOWN_TOPIC_OR_PARTITION"
        assert allowed[tp].verdict is Verdict.ACCEPTED
        await settled(world, tp, (2, 1, 3, 4))


TOPIC, UNKNOWN_TOPIC = 2, 3


def through(lab: Lab, key: int, edit: Any) -> ProxiedCluster:
    brokers = {node.id: ("127.0.0.1", node.port) for node in lab.brokers}
    return ProxiedCluster(brokers, edits={key: edit})


def know_no_topic(answer: Any) -> None:
    """What a proxy that renames topics in other requests makes of DescribeConfigs."""
    for result in answer.results:
        if result.resource_type == TOPIC:
            result.error_code, result.configs = UNKNOWN_TOPIC, []


def hide_log_dirs(answer: Any) -> None:
    answer.results = []


def test_a_topic_that_a_proxy_renames_is_bad_for_the_doctor_and_refused_at_start(
    lab: Lab, topic_name: str, tmp_path: Path
) -> None:
    workload.create_topic(Connection.to(lab.bootstrap_servers), topic_name, [[1, 2]])
    plan = tmp_path / "plan.json"
    move = {"topic": topic_name, "partition": 0, "replicas": [1, 3]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    state = ["--state-dir", str(tmp_path / "state")]
    with through(lab, ApiKey.DescribeConfigs, know_no_topic) as proxied:
        where = ["--bootstrap-server", proxied.bootstrap_servers]
        examined = CliRunner().invoke(ktui, ["doctor", *where, *state])
        checked = CliRunner().invoke(ktui, ["plan", "check", str(plan), *where, *state])
        started = CliRunner().invoke(ktui, ["start", str(plan), *where, *state])

        assert proxied.writes_seen == []
    assert "BAD   the metadata shows topic" in examined.stdout
    assert examined.exit_code == 1
    for refused in (checked, started):
        assert f"problem: topic {topic_name} is in the metadata" in refused.stderr + refused.stdout
        assert refused.exit_code == 2
    workload.delete_topics(Connection.to(lab.bootstrap_servers), [topic_name])


def test_an_empty_answer_is_called_empty_and_not_a_missing_permission(lab: Lab) -> None:
    with through(lab, ApiKey.DescribeLogDirs, hide_log_dirs) as proxied:
        where = ["--bootstrap-server", proxied.bootstrap_servers]
        examined = CliRunner().invoke(ktui, ["doctor", *where])

    assert "describing log dirs (broker 1): failed: the answer is empty" in examined.stdout
    assert "not authorized" not in examined.stdout
