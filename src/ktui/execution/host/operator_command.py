"""A command of the operator's own: split into words without a shell, and killed when it hangs.

Threads run these commands. What fails in such a thread is reported, and never ends it.
"""

from __future__ import annotations

import logging
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from ktui.cluster.text import clean
from ktui.secret_variables import without_secrets

log = logging.getLogger(__name__)

_MOST_BYTES = 4096
"""Bytes that are kept of what a command prints: the last ones."""
_READ_BYTES = 1 << 16
_LAST_READS = 16
"""Reads, at most, of what is left in a pipe: a child may go on printing after the command."""
_LOOK_S = 0.1
"""Seconds between two looks whether a command has ended while a child keeps its output open."""
_LONGEST_WORDS = 200
_WATCHER = """
read group && [ "$group" ] || exit
read _ && exit
left=$0
while [ "$left" -gt 0 ] && kill -s 0 -- "-$group"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$group"
"""
"""Reads the process group of a command, then a line which says that it has ended. Without that
line, this process has ended; the command has as many seconds left as $0 says."""


class CommandProblem(ValueError):
    """A command line that cannot be run."""


def split_command(text: str) -> list[str]:
    """Split a command line into words as a shell would, without a shell.

    Raises:
        CommandProblem: a quote is not closed, or there is no word.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandProblem(f"{clean(text)!r}: {str(error).lower()}") from None
    if not words or "\0" in text:
        raise CommandProblem(f"{clean(text)!r}: names no program")
    return words


def resolve_command(text: str) -> str:
    """Return a command line with the whole path of its program, for a process elsewhere.

    Raises:
        CommandProblem: the line cannot be split, or its program cannot be run.
    """
    program, *arguments = split_command(text)
    found = shutil.which(os.path.expanduser(program))  # noqa: PTH111 - a bare name has no path
    if found is None:
        raise CommandProblem(
            f"{clean(program)}: no such program, or it may not be run. Name it by its path"
        )
    return shlex.join([os.path.abspath(found), *arguments])  # noqa: PTH100 - keeps symbolic links


def run_command(
    words: Sequence[str], timeout_s: float, given: bytes = b"", *, outlives_s: int = 0
) -> str | None:
    """Run a command once, and return what went wrong: "ended with exit code 1: no such host".

    Args:
        words: the program and its arguments.
        timeout_s: seconds after which the command is killed, with its children.
        given: its standard input.
        outlives_s: seconds that the command may still take where this process is killed.
    """
    return _run(words, timeout_s, given, outlives_s)[1]


def command_output(words: Sequence[str], timeout_s: float) -> tuple[str, str | None]:
    """Run a command once, and return the end of its standard output, and what went wrong.

    Args:
        words: the program and its arguments.
        timeout_s: seconds after which the command is killed, with its children.
    """
    return _run(words, timeout_s, b"", 0)


def _run(
    words: Sequence[str], timeout_s: float, given: bytes, outlives_s: int
) -> tuple[str, str | None]:
    with _killed_with_us(outlives_s) as watch:
        try:
            with tempfile.TemporaryFile() as standard_input:
                standard_input.write(given)
                standard_input.seek(0)
                process = subprocess.Popen(  # noqa: S603 - the operator's command, without a shell
                    words,
                    stdin=standard_input,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd="/",
                    env=without_secrets(),
                    start_new_session=True,
                )
        except OSError as error:
            return "", f"cannot be run: {error.strerror}"
        watch(process.pid)
        return _outcome(process, timeout_s)


def _outcome(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[str, str | None]:
    """Wait for a command, and return the end of its standard output, and what went wrong."""
    assert process.stdout is not None  # noqa: S101 - for mypy: both were asked for
    assert process.stderr is not None  # noqa: S101
    output, errors = bytearray(), bytearray()
    with process.stdout, process.stderr:
        try:
            code = _follow(process, {process.stdout: output, process.stderr: errors}, timeout_s)
        except BaseException as error:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return "", f"took longer than {timeout_s:g} s and was killed"
    ended = None if code == 0 else f"ended with {exit_text(code)}{_last_line(bytes(errors))}"
    return output.decode(errors="replace"), ended


def _follow(
    process: subprocess.Popen[bytes], pipes: Mapping[IO[bytes], bytearray], timeout_s: float
) -> int:
    """Wait for a command while keeping the end of what it prints, and return its exit code.

    A child that it leaves behind may keep the pipes open, and nothing waits for that.

    Raises:
        TimeoutExpired: the command has not ended in time.
    """
    until_s = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as reading:
        for pipe in pipes:
            os.set_blocking(pipe.fileno(), False)
            reading.register(pipe, selectors.EVENT_READ)
        while reading.get_map() and process.poll() is None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            ready = {key.fileobj for key, _ in reading.select(min(left_s, _LOOK_S))}
            for pipe, end in pipes.items():
                if pipe in ready and not _read(pipe, end):
                    reading.unregister(pipe)
    code = process.wait(max(0.0, until_s - time.monotonic()))
    for pipe, end in pipes.items():
        reads = (_read(pipe, end) for _ in range(_LAST_READS))
        all(reads)  # until there is nothing more
    return code


def _read(pipe: IO[bytes], end: bytearray) -> bool:
    """Read what is in a pipe, and keep the end of it; return whether there was anything."""
    try:
        chunk = os.read(pipe.fileno(), _READ_BYTES)
    except BlockingIOError:
        return False
    end += chunk
    del end[:-_MOST_BYTES]
    return bool(chunk)


@contextmanager
def _killed_with_us(outlives_s: int) -> Iterator[Callable[[int], None]]:
    """Yield what has a command and its children killed if this process ends first, also by SIGKILL.

    A shell of its own, begun before the command, waits for a line from this process; the end of the
    pipe is that of the process.
    """
    watcher = None
    with suppress(OSError):  # no process can be begun: the command still has its time limit
        watcher = subprocess.Popen(  # noqa: S603 - a shell with a text of ours
            ["/bin/sh", "-c", _WATCHER, str(outlives_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def watch(group: int) -> None:
        if watcher is not None and watcher.stdin is not None:
            with suppress(OSError):
                watcher.stdin.write(f"{group}\n".encode())
                watcher.stdin.flush()

    try:
        yield watch
    finally:
        if watcher is not None:
            watcher.communicate(b"\n")


def exit_text(code: int) -> str:
    """Return how a process ended, by its exit code; a negative one is the signal that ended it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # such as a real-time signal, of which Python names only two
        return f"signal {-code}"


def _last_line(errors: bytes) -> str:
    """Return the last line of what a command wrote to its standard error."""
    lines = errors.decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {clean(words)[:_LONGEST_WORDS]}" if words else ""


class HelperThread:
    """A thread beside the engine, which is begun again where it has died or could not begin.

    Args:
        serve: what it does, for as long as the process lives.
    """

    def __init__(self, serve: Callable[[], None]) -> None:
        self._serve = serve
        self._thread: threading.Thread | None = None

    def keep_alive(self) -> str:
        """Begin the thread unless it lives, and return why it cannot begin; empty if it lives."""
        if self._thread is not None and self._thread.is_alive():
            return ""
        if self._thread is not None:
            log.warning("the helper thread %s has died, and is begun again", self._thread.name)
            self._thread = None
        thread = threading.Thread(target=self._serve, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left, for now
            return str(error)
        self._thread = thread
        return ""
