"""A lab is a real Kafka: it starts, breaks where it is told to, heals, and leaves nothing."""

from __future__ import annotations

import asyncio

from ktui.cli.lab.command import connect
from ktui.cluster.ports import ClusterDescription
from ktui.lab import clients, control, processes
from ktui.lab.layout import Lab
from support.kafka.outage import Outage


def described(lab: Lab) -> ClusterDescription:
    async def describe() -> ClusterDescription:
        reader = connect(clients.librdkafka_settings(lab))
        try:
            return await reader.describe_cluster()
        finally:
            await reader.aclose()

    return asyncio.run(describe())


def alive(lab: Lab) -> set[int]:
    return {broker.id for broker in described(lab).brokers.values() if broker.alive}


def test_a_lab_has_five_brokers_in_three_racks_on_this_machine_only(lab: Lab) -> None:
    cluster = described(lab)
    racks = {broker.id: broker.rack for broker in cluster.brokers.values()}
    assert racks == {1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}
    assert {broker.host for broker in cluster.brokers.values()} == {"127.0.0.1"}
    assert cluster.cluster_id == lab.layout.cluster_id


def test_a_killed_broker_leaves_the_cluster_and_comes_back_after_the_test(
    lab: Lab, outage: Outage
) -> None:
    outage.kill(3)
    assert processes.wait_for(lambda: alive(lab) == {1, 2, 4, 5}, seconds=60)
    outage.mend()
    assert processes.wait_for(lambda: alive(lab) == {1, 2, 3, 4, 5}, seconds=60)


def test_a_suspended_broker_leaves_the_cluster_and_comes_back_after_the_test(
    lab: Lab, outage: Outage
) -> None:
    outage.suspend(2)
    states = {node.node.id: node.state for node in control.status(lab)}
    assert states[2] is control.NodeState.SUSPENDED
    assert processes.wait_for(lambda: alive(lab) == {1, 3, 4, 5}, seconds=60)
    outage.mend()
    assert processes.wait_for(lambda: alive(lab) == {1, 2, 3, 4, 5}, seconds=60)
