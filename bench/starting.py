"""Time from the command to the first frame of the live view, against the unavoidable imports."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time

from bench.timing import milliseconds, process_seconds, ratio

RUNS = 7
IMPORTS = "import asyncio, kafka.net.manager, textual.app, msgspec, yaml, click"
FIRST_WORDS = b"detail"
"""A word in the footer of the first frame."""


def run() -> None:
    """Print the figures. No cluster is needed, because the first frame comes before any answer."""
    command = [sys.executable, "-m", "ktui", "--bootstrap-server", "127.0.0.1:1"]
    libraries = [sys.executable, "-c", IMPORTS]
    _first_frame(command)
    frames, imports = [], []
    for _ in range(RUNS):
        frames.append(_first_frame(command))
        imports.append(process_seconds(libraries))
    beyond = [frame - libs for frame, libs in zip(frames, imports, strict=True)]
    print(
        f"start to first frame: {milliseconds(frames)}; importing the libraries alone: "
        f"{milliseconds(imports)}; beyond them {milliseconds(beyond)} (aim: under 500 ms), "
        f"{ratio(frames, imports):.2f} times"
    )


def _first_frame(command: list[str]) -> float:
    """Run the view in a terminal, and return the seconds until its footer is written."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
    ) as process:
        seen = b""
        while FIRST_WORDS not in seen:
            if not select.select([master], [], [], 30.0)[0]:
                raise RuntimeError(f"no frame within 30 s; seen: {seen!r}")
            seen += os.read(master, 65_536)
        taken = time.perf_counter() - started
        os.killpg(process.pid, signal.SIGKILL)
    os.close(master)
    os.close(slave)
    return taken
