"""Simulated clusters to observe, each described in one line: their topics and moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import CORDONED, EVERY
from ktui.simulated import layout as events
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec

Replicas = tuple[int, ...]

MESSAGE_BYTES = 1_000
ORIGINAL: Replicas = (1, 2, 3)
TARGET: Replicas = (4, 2, 3)


def a_cluster(  # noqa: PLR0913 - each by its name, and a test passes only what it is about
    topics: Mapping[str, Collection[Replicas]] | None = None,
    *,
    moving: Iterable[str] = (),
    resting: Iterable[str] = (),
    brokers: Iterable[int] = range(1, 10),
    messages: int = 1_000_000,
    inbound_s: float = 0.0,
    copied_s: float = 1_000.0,
    configs: Mapping[str, str] | None = None,
    racks: Mapping[int, str] | None = None,
    **more: Any,
) -> SimulatedCluster:
    """Return a healthy cluster, in virtual time, in which some partitions have begun to move.

    Args:
        topics: the replicas of each partition of each topic.
        moving: further partitions, such as "orders-0", that move from ORIGINAL to TARGET.
        resting: further partitions that stay on ORIGINAL.
        brokers: the ids of the brokers.
        messages: messages in each partition at first, of MESSAGE_BYTES each.
        inbound_s: messages per second written to each partition.
        copied_s: messages per second that each broker can receive, over all its copies.
        configs: the settings of every topic.
        racks: the racks of brokers; the others have none.
        more: further fields of the cluster's specification.
    """
    moved = [tp(name) for name in moving]
    layout = _layout(topics or {}, [*moved, *(tp(name) for name in resting)])
    spec = ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=b, net_in=copied_s * MESSAGE_BYTES, rack=(racks or {}).get(b))
            for b in brokers
        ),
        topics=tuple(
            TopicSpec(
                name=name,
                replicas=tuple(replicas),
                bytes_each=messages * MESSAGE_BYTES,
                message_bytes=MESSAGE_BYTES,
                inbound=inbound_s * MESSAGE_BYTES,
                configs=configs or {},
            )
            for name, replicas in layout.items()
        ),
        **{"auto_leader_rebalance": False, "shutdown_s": 0.0, **more},
    )
    cluster = SimulatedCluster(spec, VirtualClock())
    cluster.do(events.Alter(dict.fromkeys(moved, TARGET)))
    return cluster


def _layout(
    topics: Mapping[str, Collection[Replicas]], more: Iterable[TopicPartition]
) -> dict[str, list[Replicas]]:
    layout = {name: list(replicas) for name, replicas in topics.items()}
    for each in more:
        partitions = layout.setdefault(each.topic, [])
        missing = each.partition + 1 - len(partitions)
        partitions += [ORIGINAL] * missing
    return layout


def tp(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def move(name: str, *target: int) -> events.Alter:
    """Return the event of another tool moving a partition."""
    return events.Alter({tp(name): target})


def cancel(*names: str) -> events.Alter:
    """Return the event of another tool cancelling moves."""
    return events.Alter(dict.fromkeys(map(tp, names)))


def throttle(whose: str, broker: int, bytes_s: int) -> events.AlterConfigs:
    """Return the event of another tool throttling what a broker copies, or sends as "leader"."""
    key = f"{whose}.replication.throttled.rate"
    resource = ConfigResource(ConfigScope.BROKER, str(broker))
    return events.AlterConfigs((ConfigChange(resource, key, ConfigOp.SET, str(bytes_s)),))


def cordon(broker: int) -> events.AlterConfigs:
    """Return the event of somebody cordoning all log dirs of a broker."""
    return _cordoned(broker, ConfigOp.SET, EVERY)


def uncordon(broker: int) -> events.AlterConfigs:
    """Return the event of somebody ending a broker's cordon."""
    return _cordoned(broker, ConfigOp.DELETE, None)


def _cordoned(broker: int, op: ConfigOp, value: str | None) -> events.AlterConfigs:
    resource = ConfigResource(ConfigScope.BROKER, str(broker))
    return events.AlterConfigs((ConfigChange(resource, CORDONED, op, value),))


def wait(cluster: SimulatedCluster, seconds: float) -> None:
    """Let time pass without any call to the cluster."""
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(seconds)
