"""Labs for tests. A lab that cannot start fails the tests with the reason, and skips none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.cli.lab.command import connect
from ktui.lab.java import sharing_flags
from ktui.lab.layout import Lab, LabError
from ktui.lab.up import LabRequest, down, up

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
