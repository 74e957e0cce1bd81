"""A lab for real runs: its brokers and topics, and the `ktui` that works on it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.producing import MESSAGE_BYTES
from ktui.cli.lab import connect
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import create_topic, fill
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest, down, up

MIB = 1024 * 1024
_LOT = MIB
_PATIENCE_S = 120.0


class SizedTopic(NamedTuple):
    """A topic of a lab; `sizes` has the bytes of each partition."""

    name: str
    sizes: Sequence[int]


@contextmanager
def lab_of(version: str, brokers: int) -> Iterator[tuple[Lab, Path]]:
    """Start a lab, and stop it at the end; yields it with the folder of all its files."""
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        request = LabRequest(brokers=brokers, version=version)
        lab = up(Path(folder) / "lab", request, connect, lambda _: None)
        try:
            yield lab, Path(folder)
        finally:
            down(lab, keep=False)


def create_filled(
    lab: Lab,
    topic: SizedTopic,
    replicas: Sequence[Sequence[int]],
    *,
    message_bytes: int = MESSAGE_BYTES,
) -> None:
    """Create a topic, and fill its partitions side by side, lot by lot.

    All at once would time out on a busy machine.
    """
    connection = Connection.to(lab.bootstrap_servers)
    create_topic(connection, topic.name, replicas)
    left = dict(enumerate(topic.sizes))
    while left:
        fill(connection, topic.name, left, bytes_each=_LOT, message_bytes=message_bytes)
        left = {partition: size - _LOT for partition, size in left.items() if size > _LOT}


def ktui(folder: Path, *words: str) -> list[str]:
    """Return a command line whose state directory is in the folder of the lab."""
    return [sys.executable, "-m", "ktui", *words, "--state-dir", str(folder / "state")]


def asked(argv: Sequence[str], codes: Sequence[int] = (0,)) -> str:
    """Return the standard output of a command that has to succeed.

    Args:
        argv: the command line.
        codes: the exit codes of success.

    Raises:
        SystemExit: it fails.
    """
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        sys.exit(f"not measured: {' '.join(argv[2:])}: {done.stdout}{done.stderr}")
    return done.stdout


def leave(mover: subprocess.Popen[bytes]) -> None:
    """Let the engine leave at once, as by two times Ctrl-C."""
    for _ in range(2):
        mover.send_signal(signal.SIGINT)
        time.sleep(1.0)


def until(holds: Callable[[], bool], what: str, every_s: float = 0.5) -> None:
    """Wait until something holds.

    Raises:
        SystemExit: it does not, after two minutes.
    """
    last_s = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > last_s:
            sys.exit(f"not measured: waited {_PATIENCE_S:.0f} s until {what}")
        time.sleep(every_s)


def moves(lab: Lab) -> bool:
    """Return whether anything is being reassigned."""

    async def listed() -> bool:
        reader = KafkaReader(Connection.to(lab.bootstrap_servers))
        found = await reader.list_reassignments()
        await reader.aclose()
        return bool(found)

    return asyncio.run(listed())


def in_sync(lab: Lab, topic: str) -> bool:
    """Return whether every replica of a topic is in sync."""

    async def described() -> bool:
        reader = KafkaReader(Connection.to(lab.bootstrap_servers))
        states = (await reader.describe_topics({topic})).partitions.values()
        await reader.aclose()
        return all(set(state.isr) == set(state.replicas) for state in states)

    return asyncio.run(described())
