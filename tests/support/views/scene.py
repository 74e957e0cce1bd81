"""Ten minutes of a simulated cluster, with everything that the list can show."""

from __future__ import annotations

from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, ScheduledEvent, TopicSpec
from support.simulated.moving_clusters import cancel, move

LONG_S = 600.0
POLL_S = 2.0
_MB = 1_000_000
_GB = 1_000 * _MB
_RF3 = (1, 2, 3)
_SLOW, _DEAD = 10, 9


def busy() -> SimulatedCluster:
    """Return a cluster with all its events scheduled."""
    cluster = SimulatedCluster(_spec(), VirtualClock())
    for due in _STORY:
        cluster.schedule(due)
    return cluster


def _spec() -> ClusterSpec:
    return ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=b, rack=f"eu-1{'abc'[b % 3]}", net_in=20.0 * _MB) for b in range(1, 11)
        ),
        topics=(
            _topic("orders", (5, 6, 2), (1, 2, 3), gigabytes=12),
            _topic("payments", *[(4, 7, 2)] * 13, gigabytes=4),
            _topic("audit", *[(1, 2)] * 4, gigabytes=3),
            _topic("clicks", *[_RF3] * 8, gigabytes=3),
            _topic("logs", _RF3, gigabytes=3),
            _topic("scratch", (3, 4, 5), gigabytes=5),
            _topic("metrics", *[(4, 5, 6)] * 4, (1, 2, _SLOW), gigabytes=1),
        ),
        auto_leader_rebalance=False,
    )


def _topic(name: str, *replicas: tuple[int, ...], gigabytes: int) -> TopicSpec:
    return TopicSpec(
        name=name,
        replicas=replicas,
        bytes_each=gigabytes * _GB,
        inbound=0.5 * _MB,
        configs={"min.insync.replicas": "2"},
    )


def _set(scope: ConfigScope, name: str, key: str, value: str) -> ConfigChange:
    return ConfigChange(ConfigResource(scope, name), key, ConfigOp.SET, value)


_TOO_LOW = layout.AlterConfigs(
    (
        _set(ConfigScope.TOPIC, "logs", "follower.replication.throttled.replicas", "*"),
        _set(ConfigScope.BROKER, "5", "follower.replication.throttled.rate", "200000"),
    )
)

_STORY = (
    ScheduledEvent(1.0, move("orders-0", 7, 6, 2)),
    ScheduledEvent(1.0, move("orders-1", 1, 2, _DEAD)),
    ScheduledEvent(61.0, move("payments-12", 8, 4, 3)),
    ScheduledEvent(150.0, move("scratch-0", 3, 4, 6)),
    ScheduledEvent(201.0, move("clicks-7", 1, 2, 8)),
    ScheduledEvent(251.0, layout.DeleteTopic("scratch")),
    ScheduledEvent(301.0, layout.Slow(_SLOW, 0.0001)),
    ScheduledEvent(360.0, _TOO_LOW),
    ScheduledEvent(361.0, move("logs-0", 1, 2, 5)),
    ScheduledEvent(391.0, layout.Kill(_DEAD)),
    ScheduledEvent(281.0, cancel("clicks-7")),
    ScheduledEvent(441.0, move("audit-3", 1, 2, 4)),
)
