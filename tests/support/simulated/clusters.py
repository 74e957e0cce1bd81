"""Small simulated clusters for tests of outside events."""

from __future__ import annotations

from typing import Any

from ktui.cluster.partition import TopicPartition
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec

ORDERS = TopicPartition("orders", 0)


def a_cluster(*, leaping: bool = True, **more: Any) -> SimulatedCluster:
    """Return five brokers with one partition on 1, 2 and 3 that takes ten seconds to copy."""
    values: dict[str, Any] = {
        "brokers": tuple(BrokerSpec(id=b, net_in=10.0 * MIB) for b in range(1, 6)),
        "topics": (TopicSpec(name="orders", replicas=((1, 2, 3),), bytes_each=100 * MIB),),
        "auto_leader_rebalance": False,
    }
    return SimulatedCluster(ClusterSpec(**{**values, **more}), VirtualClock(leaping=leaping))


def wait(cluster: SimulatedCluster, seconds: float) -> None:
    """Let time pass, and run everything due in it."""
    clock = cluster.clock
    assert isinstance(clock, VirtualClock)
    clock.pass_time(seconds)
    cluster.catch_up()
