"""The nodes of a cluster with three controllers and three brokers.

They include which controller is active, and which nodes are broken."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import msgspec

from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab import control, nodes
from ktui.lab.java import archive_path, fetch, find_java, needed_release, run_java
from ktui.lab.layout import Lab, LabError, Node, Security
from ktui.lab.security import ADMIN, CLIENT_LISTENER, PLAIN_MODULE, librdkafka_settings, login
from ktui.lab.up import LabRequest
from support.contract.world import until
from support.kafka.labs import Outage
from support.kafka.metadata_log import log_bytes

_EVERY_5_S, _EVERY_HOUR = "5000", "3600000"
WANTED = LabRequest(
    brokers=3,
    controllers=3,
    security=Security.SASL_PLAINTEXT,
    settings={
        "connections.max.reauth.ms": _EVERY_5_S,
        f"listener.name.{CLIENT_LISTENER.lower()}.plain.connections.max.reauth.ms": _EVERY_HOUR,
    },
)
"""The lab on which schedules are played. A SCRAM login has to be renewed every 5 s.

A PLAIN login lasts. A resumed broker drops requests from a login that expired after 5 s, and a
dropped request never arrives late.
"""


def lasting_login(lab: Lab) -> Path:
    """Write the client properties of a lasting login."""
    given = lab.client_file(ADMIN).read_text().splitlines()
    kept = [line for line in given if not line.startswith("sasl.")]
    plain = ["sasl.mechanism=PLAIN", f"sasl.jaas.config={login(PLAIN_MODULE, ADMIN, lab)}"]
    path = lab.folder / "client-lasting.properties"
    path.touch(mode=0o600)
    path.write_text("\n".join([*kept, *plain, ""]))
    return path


class Nodes(Outage):
    """Kills, suspends and repairs nodes of a lab, and knows which controller is active."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.lab = lab

    def active_controller(self) -> int | None:
        """Return the leader of the quorum, from the controllers' disks."""
        known = [found for node in self.lab.controllers if (found := self._quorum_state(node.id))]
        return max(known, default=(0, None), key=lambda each: each[0])[1]

    @property
    def all_run(self) -> bool:
        """Whether no node is down or suspended: without a second controller the quorum is lost."""
        return all(each.state is control.NodeState.RUNNING for each in control.status(self.lab))

    def start(self, node: int) -> None:
        """Start a node that has stopped; a running one stays as it is."""
        if self._state(node) is control.NodeState.STOPPED:
            control.start(self.lab, node)

    def resume(self, node: int) -> None:
        """Resume a suspended node; a running one stays as it is."""
        if self._state(node) is control.NodeState.SUSPENDED:
            control.resume(self.lab, node)

    def break_down(self, node: int, *, suspend: bool) -> bool:
        """Kill or suspend a node, and return whether it was running."""
        try:
            (self.suspend if suspend else self.kill)(node)
        except LabError:
            return False
        return True

    def _state(self, node: int) -> control.NodeState:
        return next(each.state for each in control.status(self.lab) if each.node.id == node)

    def _quorum_state(self, node: int) -> tuple[int, int] | None:
        folder = self.lab.log_dirs(self.lab.node(node))[0] / "__cluster_metadata-0"
        try:
            state = json.loads((folder / "quorum-state").read_text())
        except (OSError, ValueError):
            return None
        leader = state.get("leaderId", -1)
        return (state.get("leaderEpoch", 0), leader) if leader >= 0 else None


_STOPS_S, _LIMIT_S = 60.0, 120.0
_FEATURES = "org.apache.kafka.tools.FeatureCommand"


def with_version(lab: Lab, version: str) -> Lab:
    """Return the lab as it is once its nodes run this version; lab.json does not change."""
    class_path = fetch(version, lambda _: None)
    java = find_java(needed_release(version), f"Kafka {version}")
    archive = archive_path(java, class_path)
    newer = msgspec.structs.replace(
        lab.layout,
        kafka_version=version,
        java=java.program,
        class_path=class_path,
        class_archive=str(archive) if archive else None,
    )
    return Lab(Path(lab.folder), newer)


async def restarted_on(newer: Lab, node: Node) -> None:
    """Stop a node cleanly, start it on the newer version, and wait until all is in sync."""
    process = nodes.running(newer)[node.id]
    ended = await asyncio.to_thread(
        nodes.signal_and_wait, [process], signal.SIGTERM, seconds=_STOPS_S
    )
    assert ended, f"{node.name} does not end"
    await asyncio.to_thread(control.start, newer, node.id)
    reader = KafkaReader(Connection.of(librdkafka_settings(newer), where="the lab"))
    try:
        await until(lambda: _all_in_sync(reader, newer), limit_s=_LIMIT_S)
        if node.is_controller:
            await until(lambda: _caught_up(newer), limit_s=_LIMIT_S)
    finally:
        await reader.aclose()


def in_turn(lab: Lab) -> list[Node]:
    """Return the nodes in restart order: controllers first (the active one last), then brokers."""
    active = Nodes(lab).active_controller()
    controllers = sorted(lab.controllers, key=lambda node: node.id == active)
    return [*controllers, *lab.brokers]


def finalize(newer: Lab, release: str) -> None:
    """Raise the finalized metadata.version to that of a release (KIP-778)."""
    run_java(
        newer.layout.java,
        *("-cp", newer.layout.joined_class_path, _FEATURES),
        *("--bootstrap-server", newer.bootstrap_servers),
        *("upgrade", "--release-version", release),
        doing=f"raising the metadata version to {release}",
    )


async def _all_in_sync(reader: KafkaReader, lab: Lab) -> bool:
    cluster = await reader.describe_cluster()
    alive = {broker.id for broker in cluster.brokers.values() if broker.alive}
    if alive != {broker.id for broker in lab.brokers}:
        return False
    moving = await reader.list_reassignments()
    async for page in reader.scan_topics():
        for tp, state in page.partitions.items():
            if tp not in moving and {*state.replicas} != {*state.isr}:
                return False
    return True


async def _caught_up(lab: Lab) -> bool:
    """Return whether every controller has the whole log."""
    return len({log_bytes(lab, controller) for controller in lab.controllers}) == 1
