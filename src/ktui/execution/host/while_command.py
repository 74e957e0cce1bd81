"""The operator's own command, while which succeeds steps may begin: `--while`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from ktui.cluster.text import clean
from ktui.execution.host.operator_command import CommandProblem, run_command, split_command

TIMEOUT_S = 10.0
"""Seconds after which the command is killed, which counts as a failure."""
EVERY_S = 5.0
"""Seconds between two runs of the command."""


class WhileCommand:
    """Runs the command again and again, in a thread of its own, and knows how it ended last.

    Args:
        every_s: seconds between two runs.
        timeout_s: seconds after which the command is killed.
    """

    def __init__(self, every_s: float = EVERY_S, timeout_s: float = TIMEOUT_S) -> None:
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._command = ""
        self._problem: str | None = None
        """Why no step may begin; None if the command has succeeded."""

    def forbids(self, command: str) -> str | None:
        """Return why a command lets no step begin; None if it does, or if it is empty.

        The first call for a command starts it, and no longer runs the one before.
        """
        with self._changed:
            if command != self._command:
                self._command = command
                self._changed.notify_all()
                self._problem = self._begin(command) if command else None
            return self._problem

    def _begin(self, command: str) -> str:
        """Start running a command, and return why no step may begin yet."""
        try:
            words = split_command(command)
        except CommandProblem as problem:
            return f"--while {problem}"
        threading.Thread(target=self._serve, args=(command, words), daemon=True).start()
        return f"{_name(words)} has not ended yet"

    def _serve(self, command: str, words: Sequence[str]) -> None:
        while self._command == command:
            problem = run_command(words, self._timeout_s)
            with self._changed:
                if self._command != command:
                    return
                self._problem = None if problem is None else f"{_name(words)} {problem}"
                self._changed.wait_for(lambda: self._command != command, self._every_s)


def _name(words: Sequence[str]) -> str:
    return f"--while {clean(Path(words[0]).name)}"
