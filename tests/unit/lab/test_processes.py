"""The processes of a lab are found and signalled, and no others."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from ktui.lab import nodes
from ktui.lab.up import down
from support.kafka.lab_layout import written_lab

SLEEPER = "import time; time.sleep(600)"


class Spawner:
    """Starts processes with a given command line, and ends them after the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pids: list[int] = []

    def __call__(self, program: str, *ending: str) -> int:
        """Run a sleeping process whose command line begins with `program` and ends in `ending`."""
        command = [program, "-c", SLEEPER, *ending]
        environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
        pid = nodes.spawn(command, log=self._folder / "log", environment=environment)
        self._pids.append(pid)
        return pid

    def end_all(self) -> None:
        """Kill the processes that still run."""
        for pid in self._pids:
            process = nodes.find_by_pid(pid)
            if process:
                nodes.signal_and_wait([process], signal.SIGKILL, seconds=10)


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawner]:
    spawner = Spawner(tmp_path)
    yield spawner
    spawner.end_all()


@pytest.fixture
def java(tmp_path: Path) -> str:
    """A program named java."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.symlink_to(Path(shutil.which("python3", path=sys.base_prefix + "/bin") or "").resolve())
    return str(program)


def test_a_node_is_found_by_its_properties_file(tmp_path: Path, java: str, spawn: Spawner) -> None:
    lab = written_lab(tmp_path)
    pid = spawn(java, "kafka.Kafka", str(lab.properties_file(lab.node(2))))
    assert {node: process.pid for node, process in nodes.running(lab).items()} == {2: pid}


def test_foreign_processes_are_not_mistaken_for_a_node(
    tmp_path: Path, java: str, spawn: Spawner
) -> None:
    lab = written_lab(tmp_path)
    mine = str(lab.properties_file(lab.node(2)))
    spawn(sys.executable, "kafka.Kafka", mine)
    spawn(java, "kafka.Kafka", f"{mine}.old")
    spawn(java, "kafka.tools.StorageTool", mine)
    spawn(java, "kafka.Kafka", f"/elsewhere{mine}")
    assert nodes.running(lab) == {}


def test_down_ends_its_own_processes_and_leaves_another_lab_alone(
    tmp_path: Path, java: str, spawn: Spawner
) -> None:
    first, second = written_lab(tmp_path / "one"), written_lab(tmp_path / "two")
    mine = spawn(java, "kafka.Kafka", str(first.properties_file(first.node(1))))
    theirs = spawn(java, "kafka.Kafka", str(second.properties_file(second.node(1))))
    down(first, keep=False)
    assert nodes.find_by_pid(mine) is None
    assert nodes.find_by_pid(theirs) is not None


def test_a_reused_pid_is_never_signalled(spawn: Spawner) -> None:
    now = nodes.find_by_pid(spawn(sys.executable))
    assert now is not None
    before = msgspec.structs.replace(now, handle=psutil.Process(now.pid))
    before.handle._ident = (now.pid, 1.0)  # type: ignore[attr-defined]  # as of an earlier process
    assert not nodes.send_signal(before, signal.SIGKILL)
    assert nodes.has_ended(before)
    assert not nodes.has_ended(now)


def test_a_suspended_process_is_recognised_and_can_still_be_ended(spawn: Spawner) -> None:
    process = nodes.find_by_pid(spawn(sys.executable))
    assert process is not None
    assert not process.suspended
    nodes.send_signal(process, signal.SIGSTOP)

    def is_suspended() -> bool:
        now = nodes.find_by_pid(process.pid)
        return now is not None and now.suspended

    assert nodes.wait_for(is_suspended, seconds=10)
    assert nodes.signal_and_wait([process], signal.SIGTERM, seconds=10)


def test_signalling_an_ended_process_reports_it(spawn: Spawner) -> None:
    process = nodes.find_by_pid(spawn(sys.executable))
    assert process is not None
    assert nodes.signal_and_wait([process], signal.SIGKILL, seconds=10)
    assert not nodes.send_signal(process, signal.SIGTERM)
