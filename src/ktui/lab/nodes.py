"""Operations on the nodes of a lab: format, start, find and signal."""

from __future__ import annotations

import base64
import os
import secrets
import signal
from collections.abc import Iterable
from pathlib import Path

from ktui.lab import processes, server_log
from ktui.lab.java import run_java, sharing_flags
from ktui.lab.layout import Lab, Node
from ktui.lab.processes import Process

_STOP_S = 20.0
_KILL_S = 10.0


def new_id() -> str:
    """Generate a random id in Kafka's form: 16 bytes in 22 URL-safe base64 characters.

    As in Kafka, no id begins with a dash: Kafka's tools would take it for an option.
    """
    while (made := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[:22])[0] == "-":
        pass
    return made


def format_all(lab: Lab, scram: Iterable[str] = ()) -> None:
    """Format every node's log dirs, with one run of Kafka's StorageTool.

    The tool formats the controller's log dir. All that a broker needs of it is `meta.properties`
    with ids of its own, so the brokers get copies, which saves a JVM for each.

    Args:
        lab: the lab, with its properties files written.
        scram: values for the tool's --add-scram.
    """
    run_java(
        lab.layout.java,
        *sharing_flags(lab.layout.class_archive),
        *("-cp", lab.layout.joined_class_path, "kafka.tools.StorageTool", "format"),
        *("--cluster-id", lab.layout.cluster_id),
        *("--config", str(lab.properties_file(lab.controller))),
        *(word for credential in scram for word in ("--add-scram", credential)),
        doing="formatting the controller's log dir",
    )
    (source,) = lab.log_dirs(lab.controller)
    for node in lab.layout.nodes[1:]:
        for log_dir in lab.log_dirs(node):
            _copy_meta_properties(source, log_dir, node)


def _copy_meta_properties(source: Path, target: Path, node: Node) -> None:
    own = {"node.id": str(node.id), "directory.id": new_id()}
    target.mkdir(mode=0o700)
    lines = (source / "meta.properties").read_text().splitlines()
    changed = (
        f"{key}={own.get(key, value)}"
        for key, _, value in (line.partition("=") for line in lines if not line.startswith("#"))
    )
    (target / "meta.properties").write_text("\n".join(changed) + "\n")


def start(lab: Lab, node: Node, *jvm_flags: str) -> int:
    """Start the node's process and return its pid."""
    layout = lab.layout
    command = [
        layout.java,
        "-Xmx320m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        *sharing_flags(layout.class_archive),
        *jvm_flags,
        server_log.write_settings(lab.folder, layout.kafka_version),
        "-cp",
        layout.joined_class_path,
        processes.MAIN_CLASS,
        str(lab.properties_file(node)),
    ]
    excluded = ("KAFKA_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(excluded)}
    return processes.spawn(command, log=lab.log(node), environment=environment)


def running(lab: Lab) -> dict[int, Process]:
    """Return the process of each running node, by node id."""
    return processes.find({node.id: lab.properties_file(node) for node in lab.layout.nodes})


def stop(lab: Lab, *, gently: bool) -> None:
    """End every process of the lab, brokers first and controllers after them.

    Args:
        gently: let brokers close their logs, to keep the data.
    """
    found = running(lab)
    controllers = [p for node, p in found.items() if lab.node(node).is_controller]
    brokers = [p for node, p in found.items() if not lab.node(node).is_controller]
    for group in (brokers, controllers):
        if gently:
            signal_and_wait(group, signal.SIGTERM, seconds=_STOP_S)
        signal_and_wait(group, signal.SIGKILL, seconds=_KILL_S)


def signal_and_wait(group: list[Process], number: signal.Signals, *, seconds: float) -> bool:
    """Signal processes, waking suspended ones, and wait; return whether all have ended."""
    for process in group:
        processes.send_signal(process, number)
        processes.send_signal(process, signal.SIGCONT)
    return processes.wait_for(lambda: all(map(processes.has_ended, group)), seconds=seconds)
