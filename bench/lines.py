"""Bytes a second that the list writes to a terminal while a drain goes on: a slow line's share."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

SIZES = ((80, 24), (120, 40), (200, 60))
STORY = [sys.executable, "-m", "ktui", "demo", "drain-a-broker", "--speed", "1"]
WARM_S, MEASURED_S = 15.0, 20.0
FIRST_WORDS = b"partitions"
"""A word of the list, above its rows."""


def run() -> None:
    """Print the figures. The simulated cluster's time is the wall's: a poll a second."""
    for size in SIZES:
        first, written = _written(size)
        if FIRST_WORDS not in first or not written:
            raise SystemExit("not measured: the list is not shown, or nothing in it changes")
        print(
            f"the list in a terminal of {size[0]}x{size[1]}: {written / MEASURED_S / 1_000:.1f} "
            f"kB/s over {MEASURED_S:.0f} s (aim: at most 8 kB/s)",
            flush=True,
        )


def _written(size: tuple[int, int]) -> tuple[bytes, int]:
    """Return what was written before the measurement, and the bytes within it."""
    columns, rows = size
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    env = {name: value for name, value in env.items() if name not in {"COLUMNS", "LINES"}}
    view = subprocess.Popen(
        STORY, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
    )
    try:
        return _read(master, WARM_S), len(_read(master, MEASURED_S))
    finally:
        os.killpg(view.pid, signal.SIGKILL)
        view.wait()
        os.close(slave)
        os.close(master)


def _read(master: int, seconds: float) -> bytes:
    until, read = time.monotonic() + seconds, b""
    while (left := until - time.monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            read += os.read(master, 65_536)
    return read
