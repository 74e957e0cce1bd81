"""A real pseudo-terminal with a program in it, and access to its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyte


def _environment() -> dict[str, str]:
    """Return the environment without the size of the terminal that the tests run in."""
    own = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    return {**own, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


class Terminal:
    """Runs a command in a terminal of the given size; use as a context manager.

    Every wait is for a condition on the screen. After its limit an error shows the screen.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 120,
        rows: int = 30,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.output = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.attributes_before = termios.tcgetattr(slave)
        self._slave = slave
        self._open = [self._master, slave]
        self._process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**_environment(), **(env or {})},
            start_new_session=True,
            close_fds=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal under the program; without effect once it is closed."""
        while self._open:
            os.close(self._open.pop())

    @property
    def text(self) -> str:
        """The text of the screen, a line a row."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def title(self) -> str:
        """The terminal's title, as the program set it."""
        return str(self.screen.title)

    @property
    def attributes(self) -> list[Any]:
        """The terminal's present settings, to compare with `attributes_before`."""
        return termios.tcgetattr(self._slave)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def wait_for(
        self, condition: str | Callable[[str], Any], *, seconds: float = 120.0, why: str = ""
    ) -> str:
        """Wait until the screen has a text or meets a condition; return the screen."""
        until = time.monotonic() + seconds
        met = (lambda text: condition in text) if isinstance(condition, str) else condition
        while not met(self.text):
            left = until - time.monotonic()
            if left <= 0 or (self._process.poll() is not None and not self._read(0.2)):
                raise AssertionError(f"never saw {why or condition!r}; the screen:\n{self.text}")
            self._read(min(left, 0.2))
        return self.text

    def wait_for_exit(self, *, seconds: float = 60.0) -> int:
        """Wait until the program has ended; return its exit code."""
        until = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() > until:
                raise AssertionError(f"still running; the screen:\n{self.text}")
            self._read(0.1)
        while self._read(0.1):
            pass
        return self._process.returncode

    def _read(self, seconds: float) -> bool:
        """Read what the program wrote; False if nothing came."""
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self.output += data
        self._stream.feed(data)
        return bool(data)
