"""Labs for tests, what breaks in them, and Kafka's own tool.

A lab that cannot start fails its tests with the reason, and skips none.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ktui.cli.lab import connect
from ktui.cluster.broker import GROUPS_TOPIC
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.lab import control, security
from ktui.lab.java import sharing_flags
from ktui.lab.layout import DEFAULT_VERSION, Lab, LabError, Layout, Node, Security
from ktui.lab.up import LabRequest, down, up, wait_until_ready
from support.contract.world import LIMIT_S, until

BEFORE_43 = "4.1.2"


def a_lab(folder: Path, wanted: LabRequest) -> Iterator[Lab]:
    """Run a lab in a folder, and always end it. Fixtures yield from this generator."""
    started = _started(folder, wanted)
    if isinstance(started, LabError):
        pytest.fail(f"no real Kafka to test on: {started}", pytrace=False)
    try:
        yield started
    finally:
        down(started, keep=False)


def _started(folder: Path, wanted: LabRequest) -> Lab | LabError:
    try:
        return up(folder, wanted, connect, lambda _: None)
    except LabError as error:
        return error


def is_before_43(lab: Lab) -> bool:
    """Return whether the lab's Kafka is before 4.3: there a move also waits for kept replicas."""
    major, minor, *_ = lab.layout.kafka_version.split(".")
    return (int(major), int(minor)) < (4, 3)


def tool_command(lab: Lab, main: str, *arguments: str) -> list[str]:
    """Return the command line of one of Kafka's own tools, with the lab's Java and jars."""
    flags = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        *sharing_flags(lab.layout.class_archive),
    ]
    return [lab.layout.java, *flags, "-cp", lab.layout.joined_class_path, main, *arguments]


def written_lab(folder: Path, security: Security = Security.PLAINTEXT) -> Lab:
    """Return a lab of two brokers on ports 21001 and 21002, and a controller on 21003."""
    passwords = {"admin": "a-secret", "viewer": "v-secret", "nobody": "n-secret"}
    return Lab(
        folder,
        Layout(
            kafka_version=DEFAULT_VERSION,
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            security=security,
            java="/opt/jdk/bin/java",
            class_path=("/jars/a.jar", "/jars/b.jar"),
            nodes=(
                Node(id=100, port=21003),
                Node(id=1, port=21001, rack="a"),
                Node(id=2, port=21002, rack="b"),
            ),
            passwords=passwords if security.by_password else {},
        ),
    )


SOON = {"replica.high.watermark.checkpoint.interval.ms": "500"}
"""Settings of a lab whose brokers write to each log dir twice a second, and so notice a failure."""


class Outage:
    """Breaks brokers of a lab. The fixture that provides it calls `mend` after the test."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def kill(self, broker: int) -> None:
        """Kill the broker like a power loss."""
        control.kill(self._lab, broker)

    def suspend(self, broker: int) -> None:
        """Suspend the broker, so that it hangs."""
        control.suspend(self._lab, broker)

    def mend(self) -> None:
        """Resume hanging brokers, start dead ones, and wait until all serve, and keep groups.

        A group whose partition has one replica in sync is gone with that broker, which may be the
        next that a test breaks.
        """
        broken = [n for n in control.status(self._lab) if n.state is not control.NodeState.RUNNING]
        for node in broken:
            act = control.resume if node.state is control.NodeState.SUSPENDED else control.start
            act(self._lab, node.node.id)
        if broken:
            asyncio.run(self._until_whole())

    async def _until_whole(self) -> None:
        await wait_until_ready(self._lab, connect, lambda _: None)
        admin = AdminClient({**security.librdkafka_settings(self._lab), "log_level": 0})

        async def groups_in_sync() -> bool:
            topics = (await asyncio.to_thread(admin.list_topics, timeout=LIMIT_S)).topics
            kept = topics[GROUPS_TOPIC].partitions.values() if GROUPS_TOPIC in topics else ()
            return all({*each.isrs} == {*each.replicas} for each in kept)

        await until(groups_in_sync)


_LINE = re.compile(r"(?P<tp>\S+): replicas: (?P<replicas>[\d,]*)\.(?P<rest>.*)")
MAIN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


def command(lab: Lab, *arguments: str) -> list[str]:
    """Return the command line of the tool on the lab."""
    return tool_command(lab, MAIN, "--bootstrap-server", lab.bootstrap_servers, *arguments)


def listed(lab: Lab) -> dict[TopicPartition, Reassignment]:
    """Run `--list` and parse the output."""
    done = subprocess.run(command(lab, "--list"), capture_output=True, text=True, check=True)
    found: dict[TopicPartition, Reassignment] = {}
    for line in done.stdout.splitlines():
        match = _LINE.match(line)
        if match is not None:
            topic, _, partition = match["tp"].rpartition("-")
            found[TopicPartition(topic, int(partition))] = Reassignment(
                _ids(match["replicas"]),
                _ids(_after("adding", match["rest"])),
                _ids(_after("removing", match["rest"])),
            )
    return found


def _after(word: str, text: str) -> str:
    match = re.search(rf"{word}: ([\d,]*)\.", text)
    return "" if match is None else match[1]


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)
