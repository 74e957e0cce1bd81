"""Kafka's own kafka-reassign-partitions, as a reference to compare with."""

from __future__ import annotations

import re
import subprocess

from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.lab.layout import Lab
from support.kafka.labs import tool_command

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
