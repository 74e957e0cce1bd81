"""Labs for tests: one where it cannot start fails them with the reason, and skips none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.cli.lab.command import connect
from ktui.lab.down import down
from ktui.lab.errors import LabError
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest, up


def a_lab(folder: Path, wanted: LabRequest) -> Iterator[Lab]:
    """Run a lab in a folder, and end it whatever happens: what a fixture yields from."""
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
    """Whether its Kafka is older than 4.3, where a move waits also for the replicas it keeps."""
    major, minor, *_ = lab.layout.kafka_version.split(".")
    return (int(major), int(minor)) < (4, 3)
