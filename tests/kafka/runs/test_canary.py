"""The canary of a run: it measures what producers feel, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json

from confluent_kafka.admin import AdminClient

from ktui.kafka.canary import Canary
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.cli.shell import Shell
from support.contract.world import until
from support.kafka.filled_topic import filled_topic

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
