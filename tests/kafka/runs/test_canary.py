"""The canary of a run: it measures what producers feel, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from confluent_kafka.admin import AdminClient

from ktui.cluster.partition import TopicPartition
from ktui.kafka.canary import Canary
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import assign_round_robin, create_topic
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from support.cli.shell import Shell
from support.contract.world import until
from support.kafka.slow_topic import filled_topic

MB = 1_000_000


def _leaders(connection: Connection, topic: str) -> list[int]:
    """Return the leaders of a topic's partitions; none if there is no such topic."""
    found = AdminClient(dict(connection.for_confluent())).list_topics(timeout=30.0).topics
    return sorted(p.leader for p in found[topic].partitions.values()) if topic in found else []


def test_a_run_follows_its_canary_and_deletes_its_topic(
    lab: Lab, shell: Shell, topic_name: str
) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    with filled_topic(connection, topic_name, [[1]], bytes_each=24 * MB):
        plan = shell.plan("drain", [{"topic": topic_name, "partition": 0, "replicas": [4]}])
        done = shell.ktui("start", plan, "--slo", "p99<20s", "--canary", "--headless", "--json")

    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    held = [event for event in events if event.get("event") == "rate_held"]
    assert 0.0 < held[0]["figure"] < 20.0
    assert held[0]["kept"] == held[0]["windows"]
    assert _leaders(connection, "ktui-canary-drain") == []


async def test_a_broker_that_joined_since_the_topic_was_made_is_measured_too(lab: Lab) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    canary = Canary(connection, "joined")
    create_topic(connection, canary.topic, [[1, 2], [2, 1]])

    async def all_lead() -> bool:
        return _leaders(connection, canary.topic) == [node.id for node in lab.brokers]

    canary.start()
    await until(all_lead)
    await asyncio.to_thread(canary.close)


async def test_a_broker_leads_its_partition_of_the_canary_again_once_it_can(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.kafka.canary._ELECT_S", 0.5)
    connection = Connection.to(lab.bootstrap_servers)
    canary = Canary(connection, "away")
    brokers = [node.id for node in lab.brokers]
    create_topic(connection, canary.topic, assign_round_robin(len(brokers), 2, brokers))

    async def measured() -> bool:
        return len(canary.percentiles_s(99.0)) == len(brokers)

    async def led_by_two() -> bool:
        return _leaders(connection, canary.topic).count(2) == 2

    canary.start()
    await until(measured)
    assert _leaders(connection, canary.topic) == brokers
    async with aclosing(KafkaWriter(connection)) as writer:
        reordered = {TopicPartition(canary.topic, 0): (2, 1)}  # which leaves the lead with 1
        await writer.alter_reassignments(reordered, allow_replication_factor_change=False)
    await until(led_by_two, limit_s=60.0)  # far sooner than Kafka's own rebalancing
    await asyncio.to_thread(canary.close)


async def test_it_writes_to_every_broker_and_goes_on_with_a_topic_that_a_killed_run_left(
    lab: Lab,
) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    killed, canary = Canary(connection, "audit"), Canary(connection, "audit")

    async def measured(of: Canary) -> bool:
        return len(of.percentiles_s(99.0)) == len(lab.brokers)

    killed.start()
    await until(lambda: measured(killed))
    assert len(_leaders(connection, killed.topic)) == len(lab.brokers)
    canary.start()
    await until(lambda: measured(canary))
    await asyncio.to_thread(killed.close)
    await asyncio.to_thread(canary.close)

    assert _leaders(connection, canary.topic) == []
