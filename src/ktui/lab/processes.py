"""The processes of a lab, as the operating system knows them.

A process is found by its command line, which ends in Kafka's main class and the path of the node's
server properties. Its start time distinguishes it from a later process with the same pid. So
nothing is lost when the process that started the lab dies, and no other process is ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

MAIN_CLASS = "kafka.Kafka"
_PROC = Path("/proc")
_SPAWN_S = 10.0
_PS_LINE = re.compile(
    r"\s*(?P<pid>\d+)\s+(?P<state>\S+)\s+(?P<started>(?:\S+\s+){5})(?P<command>.*)"
)


class Process(msgspec.Struct, frozen=True):
    """One running process."""

    pid: int
    started: str
    """The start time in the system's own format; it differs when a pid is reused."""
    suspended: bool
    command: str


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
    for process in _all():
        main = process.command.rfind(f" {MAIN_CLASS} ")
        node = endings.get(process.command[main:]) if main > 0 else None
        if node is not None and Path(process.command[:main].split(" -", 1)[0]).name == "java":
            found[node] = process
    return found


def find_by_pid(pid: int) -> Process | None:
    """Return the process with a pid; None if there is none, or only a zombie."""
    _reap(pid)
    return _read_proc(pid) if _PROC.exists() else next(_run_ps("-p", str(pid)), None)


def send_signal(process: Process, number: signal.Signals) -> bool:
    """Signal the process unless it has ended; return whether it was there."""
    if not _is_same(process):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
        return True
    return False


def has_ended(process: Process) -> bool:
    """Return whether the process has ended."""
    return not _is_same(process)


def wait_for(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll a condition every 20 ms until it holds; return whether it did within the time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


def _is_same(process: Process) -> bool:
    now = find_by_pid(process.pid)
    return now is not None and now.started == process.started


def _reap(pid: int) -> None:
    """Reap a child that has ended; processes that are not our children are left alone."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _all() -> Iterator[Process]:
    if not _PROC.exists():
        yield from _run_ps("-ax")
        return
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and (process := _read_proc(int(entry.name))):
            yield process


def _read_proc(pid: int) -> Process | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    if state in "ZX":
        return None
    command = os.fsdecode(b" ".join(word for word in words if word))
    return Process(pid, fields[18], suspended=state in "Tt", command=command)


def _run_ps(*which: str) -> Iterator[Process]:
    """List processes with ps, for systems without /proc (macOS)."""
    columns = ["-o", "pid=", "-o", "state=", "-o", "lstart=", "-o", "args="]
    listing = subprocess.run(  # noqa: S603 - only pids and flags of ours are passed
        ["ps", "-ww", *which, *columns],  # noqa: S607 - ps is where the system has it
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    for line in listing.stdout.splitlines():
        seen = _PS_LINE.fullmatch(line)
        if seen and seen["state"][0] not in "ZX":
            suspended = seen["state"].startswith("T")
            yield Process(int(seen["pid"]), seen["started"].strip(), suspended, seen["command"])
