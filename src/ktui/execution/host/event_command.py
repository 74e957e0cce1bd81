"""The operator's own command, which gets the notices of a run: `--on-event`."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from ktui.cluster.text import clean
from ktui.quantities import as_count

TIMEOUT_S = 10.0
"""Seconds after which the command is killed."""
MOST_WAITING = 100
"""Notices that wait for the command, at most; the oldest are dropped first."""
CLOSING_S = 20.0
"""Seconds that the last notices get when the engine ends."""
_MOST_BYTES = 4096
_LONGEST_WORDS = 200


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


class EventCommand:
    """Runs the command for each notice, one after the other, in a thread of its own.

    Nothing that the command does reaches the caller, but for the failures that it asks for.

    Args:
        command: the command line, as `resolve_command` returns it.
        timeout_s: seconds after which the command is killed.
    """

    def __init__(self, command: str, timeout_s: float = TIMEOUT_S) -> None:
        self._words = split_command(command)
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._failures: list[str] = []
        self._dropped = 0
        self._busy = False
        self._thread: threading.Thread | None = None

    def send(self, notice: bytes) -> None:
        """Let the command have a notice on its standard input; returns at once."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(notice)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def failures(self) -> list[str]:
        """Return what went wrong since the last call, a sentence each."""
        with self._changed:
            failures, self._failures = self._failures, []
            if self._dropped:
                dropped = as_count(self._dropped, "notice")
                failures.append(f"{self._name} is too slow: {dropped} dropped, the oldest first")
            self._dropped = 0
            return failures

    def close(self, within_s: float = CLOSING_S) -> list[str]:
        """Wait for the last notices to be taken, and return what went wrong."""
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
        return f"--on-event {clean(Path(self._words[0]).name)}"

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                notice, self._busy = self._waiting.popleft(), True
            problem = self._problem_with(notice)
            with self._changed:
                self._busy = False
                if problem is not None:
                    self._failures.append(f"{self._name} {problem}")
                self._changed.notify_all()

    def _problem_with(self, notice: bytes) -> str | None:
        try:
            return self._run(notice)
        except OSError as error:
            return f"cannot be run: {error.strerror}"

    def _run(self, notice: bytes) -> str | None:
        """Run the command once, and return what went wrong.

        Files take the place of pipes, which a grandchild could keep open.
        """
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as told:
            given.write(notice)
            given.seek(0)
            process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
                self._words,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=told,
                cwd="/",
                start_new_session=True,
            )
            try:
                code = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"took longer than {self._timeout_s:g} s and was killed"
            return None if code == 0 else f"ended with {_exit_text(code)}{_last_words(told)}"


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name


def _last_words(told: IO[bytes]) -> str:
    """Return the last line of what a command wrote to its standard error."""
    told.seek(max(0, told.seek(0, os.SEEK_END) - _MOST_BYTES))
    lines = told.read().decode(errors="replace").split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {clean(words)[:_LONGEST_WORDS]}" if words else ""
