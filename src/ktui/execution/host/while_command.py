"""The operator's own command, while which succeeds steps may begin: `--while`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ktui.cluster.text import clean
from ktui.execution.host.operator_command import (
    CommandProblem,
    HelperThread,
    run_command,
    split_command,
)
from ktui.quantities import as_duration

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""Seconds after which the command is killed, which counts as a failure."""
EVERY_S = 5.0
"""Seconds between two runs of the command."""
LATE_S = 5.0
"""Seconds by which a run may be late; after that the last success says nothing any more."""


class WhileCommand:
    """Runs the command again and again, in a thread of its own, and knows how it ended last.

    Only a success of a moment ago lets steps begin: whatever goes wrong here shuts the gate.

    Args:
        every_s: seconds between two runs.
        timeout_s: seconds after which the command is killed.
    """

    def __init__(self, every_s: float = EVERY_S, timeout_s: float = TIMEOUT_S) -> None:
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._thread = HelperThread(self._serve)
        self._command = ""
        self._words: Sequence[str] = ()
        """The present command; empty for none, and for one that cannot be split."""
        self._problem: str | None = None
        """Why no step may begin; None if the command has succeeded."""
        self._ended_s = 0.0
        """When the last run of the present command ended."""

    def forbids(self, command: str) -> str | None:
        """Return why a command lets no step begin; None if it does, or if it is empty.

        The first call for a command starts it, and no longer runs the one before.
        """
        with self._changed:
            if command != self._command:
                self._command, self._words = command, ()
                self._problem = self._begin(command) if command else None
                self._changed.notify_all()
            if self._words and (problem := self._thread.keep_alive()):
                return f"{_name(self._words)} cannot be run: {problem}"
            silent_s = time.monotonic() - self._ended_s
            late = silent_s > self._every_s + self._timeout_s + LATE_S
            if self._words and self._problem is None and late:
                return f"{_name(self._words)} has given no answer for {as_duration(silent_s)}"
            return self._problem

    def _begin(self, command: str) -> str:
        """Let a command be run, and return why no step may begin yet."""
        try:
            self._words = split_command(command)
        except CommandProblem as problem:
            return f"--while {problem}"
        return f"{_name(self._words)} has not ended yet"

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._words)
                words = self._words
            problem = self._run(words)
            with self._changed:
                if self._words is words:
                    self._problem, self._ended_s = problem, time.monotonic()
                    self._changed.wait_for(partial(self._has_another_than, words), self._every_s)

    def _has_another_than(self, words: Sequence[str]) -> bool:
        return self._words is not words

    def _run(self, words: Sequence[str]) -> str | None:
        try:
            problem = run_command(words, self._timeout_s)
        except Exception as error:  # it is run again, and until then the gate is shut
            log.exception("the command of --while failed in an unknown way")
            problem = f"failed: {error!r:.200}"
        return None if problem is None else f"{_name(words)} {problem}"


def _name(words: Sequence[str]) -> str:
    return f"--while {clean(Path(words[0]).name)}"
