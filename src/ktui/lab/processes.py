"""The processes of a lab, as the operating system knows them.

A process is found by its command line, which ends in Kafka's main class and the path of the node's
server properties. Its start time distinguishes it from a later process with the same pid. So
nothing is lost when the process that started the lab dies, and no other process is ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil

MAIN_CLASS = "kafka.Kafka"
_SPAWN_S = 10.0


class Process(msgspec.Struct, frozen=True):
    """One running process, as it was when it was looked up."""

    handle: psutil.Process
    """psutil's process: a pid and a start time, so that a reused pid is another process."""
    suspended: bool
    command: str

    @property
    def pid(self) -> int:
        return self.handle.pid


def spawn(command: list[str], *, log: Path, environment: dict[str, str]) -> int:
    """Start a process in a session of its own, so that a terminal's Ctrl-C does not reach it.

    Args:
        command: the program as an absolute path, and its arguments.
        log: the file to which the process's output is appended.
        environment: the whole environment of the process.

    Returns:
        The pid, once the system shows the command line by which `find` identifies the process.
        Linux shows none for an instant after the start.
    """
    to_log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), to_log, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    wait_for(lambda: (now := find_by_pid(pid)) is None or bool(now.command), seconds=_SPAWN_S)
    return pid


def find(properties: dict[int, Path]) -> dict[int, Process]:
    """Find the running Kafka processes of a lab.

    Args:
        properties: the server properties file of each node, by node id.

    Returns:
        The process of each running node, by node id.
    """
    endings = {f" {MAIN_CLASS} {path}": node for node, path in properties.items()}
    found = {}
    for process in running():
        main = process.command.rfind(f" {MAIN_CLASS} ")
        node = endings.get(process.command[main:]) if main > 0 else None
        if node is not None and Path(process.command[:main].split(" -", 1)[0]).name == "java":
            found[node] = process
    return found


def running() -> Iterator[Process]:
    """Yield every process that can be looked up and is not a zombie."""
    return filter(None, map(_look_up, psutil.process_iter()))


def find_by_pid(pid: int) -> Process | None:
    """Return the process with a pid; None if there is none, or only a zombie."""
    _reap(pid)
    try:
        return _look_up(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return None


def send_signal(process: Process, number: signal.Signals) -> bool:
    """Signal the process unless it has ended; return whether it was there."""
    if has_ended(process):
        return False
    try:
        process.handle.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def has_ended(process: Process) -> bool:
    """Return whether the process has ended."""
    _reap(process.pid)
    return not process.handle.is_running() or _look_up(process.handle) is None


def wait_for(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll a condition every 20 ms until it holds; return whether it did within the time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


def _reap(pid: int) -> None:
    """Reap a child that has ended; processes that are not our children are left alone."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _look_up(handle: psutil.Process) -> Process | None:
    try:
        with handle.oneshot():
            status = handle.status()
            if status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return None
            command = " ".join(word for word in handle.cmdline() if word)
    except psutil.Error:
        return None
    suspended = status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return Process(handle, suspended, command)
