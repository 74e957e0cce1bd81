"""The server properties of a lab's nodes, and the format of Java properties files."""

from __future__ import annotations

from collections.abc import Mapping

from ktui.lab.layout import HOST, Lab, Node

_SMALL_SIZES = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
    "log.segment.bytes": str(16 * 1024 * 1024),
    "socket.request.max.bytes": str(32 * 1024 * 1024),
}
"""Few threads and small buffers, for six processes on a laptop."""

_SHORT_TIMEOUTS = {
    "replica.lag.time.max.ms": "3000",
    # One fetch of 1 MiB exceeds a throttle of some 100 kB/s at once, and then all wait for long.
    "replica.fetch.max.bytes": "65536",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "true",
}
"""Short timeouts: a dead broker is noticed within seconds, and a new broker serves at once."""

_LITTLE_IDLE_WORK = {
    # The controller's empty records, which each node fetches: by default two a second.
    "metadata.max.idle.interval.ms": "2000",
}
"""Less to do while nothing happens: an idle lab takes a quarter less processor time."""

_TOPIC_RULES = {
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.min.isr": "1",
}

_INTERNAL_TOPICS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)

CONTROLLER_LISTENER = "CONTROLLER"
CLIENT_LISTENER = "CLIENTS"


def server_properties(lab: Lab, node: Node, secured: Mapping[str, str]) -> dict[str, str]:
    """Return the complete server.properties of one node.

    Args:
        secured: the settings for the lab's security; empty for plaintext.
    """
    replication = str(min(3, len(lab.brokers)))
    own = _controller_properties(node) if node.is_controller else _broker_properties(node)
    protocol = lab.layout.security.protocol
    return {
        **own,
        "node.id": str(node.id),
        "log.dirs": ",".join(map(str, lab.log_dirs(node))),
        "controller.quorum.voters": ",".join(
            f"{voter.id}@{HOST}:{voter.port}" for voter in lab.controllers
        ),
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": (
            f"{CONTROLLER_LISTENER}:{protocol},{CLIENT_LISTENER}:{protocol}"
        ),
        **_SMALL_SIZES,
        **_SHORT_TIMEOUTS,
        **_LITTLE_IDLE_WORK,
        **_TOPIC_RULES,
        **dict.fromkeys(_INTERNAL_TOPICS, replication),
        **secured,
        **lab.layout.settings,
    }


def _controller_properties(node: Node) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "listeners": f"{CONTROLLER_LISTENER}://{HOST}:{node.port}",
    }


def _broker_properties(node: Node) -> dict[str, str]:
    address = f"{CLIENT_LISTENER}://{HOST}:{node.port}"
    return {
        "process.roles": "broker",
        "broker.rack": node.rack or "",
        "listeners": address,
        "advertised.listeners": address,
        "inter.broker.listener.name": CLIENT_LISTENER,
    }


def render(properties: Mapping[str, str]) -> str:
    """Render a Java properties file; backslashes are escaped, as Properties.load expects."""
    lines = (f"{key}={_escaped(value)}" for key, value in properties.items())
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\\n")
