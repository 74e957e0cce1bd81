"""A lab is a real Kafka: it starts, breaks on demand, heals, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ktui.cli.lab.command import connect
from ktui.cluster.ports import ClusterReader
from ktui.lab import control, readiness
from ktui.lab.layout import Lab
from support.contract.world import until
from support.kafka.labs import Outage


@pytest.fixture
async def reader(lab: Lab) -> AsyncIterator[ClusterReader]:
    reader = connect(readiness.librdkafka_settings(lab))
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
