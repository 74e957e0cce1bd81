"""A rolling upgrade of a lab: each node stops cleanly and restarts with other jars."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec

from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab import control, nodes
from ktui.lab.java import archive_path, fetch, find_java, needed_release, run_java
from ktui.lab.layout import Lab, Node
from ktui.lab.readiness import librdkafka_settings
from support.contract.world import until
from support.kafka.metadata_log import log_bytes
from support.schedules.nodes import Nodes

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
