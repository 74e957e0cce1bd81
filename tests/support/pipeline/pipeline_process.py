"""`ktui pipeline run` in a process of its own, which can be stopped and killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 900.0
"""Seconds: longer than any step takes on a busy machine."""


class PipelineProcess:
    """A run.

    Args:
        words: the options of `ktui pipeline run`.
        environment: the environment of the process.
    """

    def __init__(self, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._printed = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ktui", "pipeline", "run", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,  # so that signals reach its JVM
        )

    def works_on(self, table: str) -> None:
        """Wait until it writes a table."""
        self.prints(f": {table}")

    def prints(self, words: str) -> None:
        """Wait until it prints a line with some words."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._printed += line
            if words in line:
                return
        raise AssertionError(self._printed)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and to its JVM."""
        os.killpg(self._process.pid, number)

    def loses_its_jvm(self) -> None:
        """Kill its JVM alone."""
        pid = self._process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def loses_to(self, other: Callable[[], bytes]) -> bytes:
        """Let another run write version 1 while this one stands still; it says so, and ends.

        Args:
            other: writes the version, and returns its manifest.
        """
        self.works_on("moves")
        self.signal(signal.SIGSTOP)
        manifest = other()
        self.signal(signal.SIGCONT)
        code, printed = self.ends()
        assert code == 1, printed
        said = "another run has written version 1 meanwhile; this one has changed nothing"
        assert said in printed
        assert "Traceback" not in printed
        return manifest

    def ends(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and all that it has printed."""
        self._printed += self._process.communicate(timeout=LIMIT_S)[0]
        return self._process.returncode, self._printed

    def close(self) -> None:
        """Kill it, if it has not ended."""
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
        self._process.communicate()


@contextmanager
def pipeline_process(
    words: tuple[str, ...], environment: Mapping[str, str]
) -> Iterator[PipelineProcess]:
    """Begin a run, and always end it."""
    running = PipelineProcess(words, environment)
    try:
        yield running
    finally:
        running.close()
