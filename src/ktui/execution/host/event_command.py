"""The operator's own command, which gets the notices of a run: `--on-event`."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from pathlib import Path

from ktui.cluster.text import clean
from ktui.execution.host.operator_command import HelperThread, run_command, split_command
from ktui.quantities import as_count

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""Seconds after which the command is killed."""
MOST_WAITING = 100
"""Notices that wait for the command, at most; the oldest are dropped first."""
CLOSING_S = 20.0
"""Seconds that the last notices get when the engine ends."""


class EventCommand:
    """Runs the command for each notice, one after the other, in a thread of its own.

    Nothing that the command does reaches the caller, but for the failures that it asks for.

    Args:
        command: the command line, as `operator_command.resolve_command` returns it.
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
        self._thread = HelperThread(self._serve)

    def send(self, notice: bytes) -> None:
        """Let the command have a notice on its standard input; returns at once."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(notice)
            if problem := self._thread.keep_alive():
                self._failures.append(f"{self._name} cannot be run: {problem}")
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
            problem = self._run(notice)
            with self._changed:
                self._busy = False
                if problem is not None:
                    self._failures.append(f"{self._name} {problem}")
                self._changed.notify_all()

    def _run(self, notice: bytes) -> str | None:
        outlives_s = math.ceil(self._timeout_s)  # a page about a killed engine still goes out
        try:
            return run_command(self._words, self._timeout_s, notice, outlives_s=outlives_s)
        except Exception as error:  # the next notice is handed on all the same
            log.exception("a notice was not handed on")
            return f"failed: {error!r:.200}"
