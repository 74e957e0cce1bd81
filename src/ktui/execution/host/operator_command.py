"""Commands of the operator: run without a shell, killed when they hang; --while and --on-event."""

from __future__ import annotations

import logging
import math
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from ktui.cluster.text import clean
from ktui.quantities import as_count, as_duration
from ktui.secret_variables import without_secrets

log = logging.getLogger(__name__)

_MOST_BYTES = 4096  # kept of what a command prints: the last ones
_READ_BYTES = 1 << 16
_LAST_READS = 16  # at most, of what is left in a pipe: a child may go on printing after the command
_LOOK_S = 0.1  # between two looks whether a command ended while a child keeps its output open
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
    """Split a command line as a shell would. CommandProblem: an open quote, or no word."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandProblem(f"{clean(text)!r}: {str(error).lower()}") from None
    if not words or "\0" in text:
        raise CommandProblem(f"{clean(text)!r}: names no program")
    return words


def resolve_command(text: str) -> str:
    """Give a line its program's whole path, to run elsewhere. CommandProblem: it cannot be run."""
    program, *arguments = split_command(text)
    found = shutil.which(os.path.expanduser(program))  # noqa: PTH111 - a bare name has no path
    if found is None:
        raise CommandProblem(
            f"{clean(program)}: no such program, or it may not be run. Name it by its path"
        )
    return shlex.join([os.path.abspath(found), *arguments])  # noqa: PTH100 - keeps symbolic links


def run_command(
    words: Sequence[str], timeout_s: float, given: bytes = b"", *, outlives_s: int = 0
) -> tuple[str, str | None]:
    """Run a command once: return the end of its output, and what went wrong, if anything did.

    Args:
        timeout_s: seconds after which the command is killed, with its children.
        given: its standard input.
        outlives_s: seconds that the command may still take where this process is killed.
    """
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
    """Keep the end of what it prints; nothing waits for a child with its pipes. TimeoutExpired."""
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
    lines = errors.decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {clean(words)[:_LONGEST_WORDS]}" if words else ""


def command_name(option: str, words: Sequence[str]) -> str:
    """Name a command by its option and its program: "--while check.sh"."""
    return f"{option} {clean(Path(words[0]).name)}"


def _problem_of(
    option: str, words: Sequence[str], timeout_s: float, given: bytes = b"", outlives_s: int = 0
) -> str | None:
    try:
        _, problem = run_command(words, timeout_s, given, outlives_s=outlives_s)
    except Exception as error:  # its thread goes on: it is run again, or gets the next notice
        log.exception("the command of %s failed in an unknown way", option)
        problem = f"failed: {error!r:.200}"
    return None if problem is None else f"{command_name(option, words)} {problem}"


class HelperThread:
    """A thread for `serve`, begun again where it has died or could not begin."""

    def __init__(self, serve: Callable[[], None]) -> None:
        self._serve = serve
        self._thread: threading.Thread | None = None

    def keep_alive(self) -> str:
        """Return why it cannot begin; empty if it lives."""
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


TIMEOUT_S = 10.0  # until the command is killed, which counts as a failure
EVERY_S = 5.0  # between two runs of the command
LATE_S = 5.0  # by which a run may be late; then the last success says nothing any more


class WhileCommand:
    """Runs the command again and again, in a thread of its own, and knows how it ended last.

    Only a success of a moment ago lets steps begin: whatever goes wrong here shuts the gate.
    """

    def __init__(self, every_s: float = EVERY_S, timeout_s: float = TIMEOUT_S) -> None:
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._thread = HelperThread(self._serve)
        self._command = ""
        self._words: Sequence[str] = ()  # empty for none, and for one that cannot be split
        self._problem: str | None = None  # why no step may begin; None if it succeeded
        self._ended_s = 0.0  # the last run of the present command

    def forbids(self, command: str) -> str | None:
        """None: a step may begin. A new command begins here, and ends the one before."""
        with self._changed:
            if command != self._command:
                self._command, self._words = command, ()
                self._problem = self._begin(command) if command else None
                self._changed.notify_all()
            if self._words and (problem := self._thread.keep_alive()):
                return f"{self._name} cannot be run: {problem}"
            silent_s = time.monotonic() - self._ended_s
            late = silent_s > self._every_s + self._timeout_s + LATE_S
            if self._words and self._problem is None and late:
                return f"{self._name} has given no answer for {as_duration(silent_s)}"
            return self._problem

    @property
    def _name(self) -> str:
        return command_name("--while", self._words)

    def _begin(self, command: str) -> str:
        try:
            self._words = split_command(command)
        except CommandProblem as problem:
            return f"--while {problem}"
        return f"{self._name} has not ended yet"

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._words)
                words = self._words
            problem = _problem_of("--while", words, self._timeout_s)
            with self._changed:
                if self._words is words:
                    self._problem, self._ended_s = problem, time.monotonic()
                    self._changed.wait_for(partial(self._has_another_than, words), self._every_s)

    def _has_another_than(self, words: Sequence[str]) -> bool:
        return self._words is not words


MOST_WAITING = 100  # at most; the oldest are dropped first
CLOSING_S = 20.0  # for the last notices when the engine ends


class EventCommand:
    """Runs a resolved command for each notice in a thread; callers get only failures."""

    def __init__(self, command: str, timeout_s: float = TIMEOUT_S) -> None:
        self._words = split_command(command)
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._failures: list[str] = []
        self._dropped = 0
        self._busy = False
        self._thread = HelperThread(self._serve)

    def send(self, notice: bytes) -> None:
        """On its standard input; returns at once."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(notice)
            if problem := self._thread.keep_alive():
                self._failures.append(f"{self._name} cannot be run: {problem}")
            self._changed.notify_all()

    def failures(self) -> list[str]:
        with self._changed:
            failures, self._failures = self._failures, []
            if self._dropped:
                dropped = as_count(self._dropped, "notice")
                failures.append(f"{self._name} is too slow: {dropped} dropped, the oldest first")
            self._dropped = 0
            return failures

    def close(self, within_s: float = CLOSING_S) -> list[str]:
        until_s = time.monotonic() + within_s
        with self._changed:
            while (self._waiting or self._busy) and (left_s := until_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
            if self._waiting:
                left = as_count(len(self._waiting), "notice")
                self._failures.append(f"{self._name} is too slow: {left} left over")
                self._waiting.clear()
        return self.failures()

    @property
    def _name(self) -> str:
        return command_name("--on-event", self._words)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                notice, self._busy = self._waiting.popleft(), True
            outlives_s = math.ceil(self._timeout_s)  # a page about a killed engine still goes out
            problem = _problem_of("--on-event", self._words, self._timeout_s, notice, outlives_s)
            with self._changed:
                self._busy = False
                if problem is not None:
                    self._failures.append(problem)
                self._changed.notify_all()
