"""Followers of recordings in a thread, and `ktui pipeline run` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from ktui.lab.nodes import wait_for
from ktui.pipeline.ingest.segments import Found
from ktui.pipeline.run.follow import Follower, FollowPrinter
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest
from support.pipeline.sparks import ENGINE, small_settings

PATIENCE_S = 300.0
"""Seconds that a test waits for an expected report, on a busy machine."""


class Heard(FollowPrinter):
    """Keeps the reports of a follower.

    Args:
        fails: called with each outcome; its exceptions are raised in the follower.
        begins: called with the name of each activity that begins.
    """

    def __init__(
        self,
        fails: Callable[[PipelineOutcome], None] = lambda _: None,
        begins: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.outcomes: list[PipelineOutcome] = []
        self.waited: list[str] = []
        self.found: list[Found] = []
        self.problems: list[str] = []
        self.failure: BaseException | None = None
        self.over = False
        self._fails = fails
        self._begins = begins
        self._changed = threading.Condition()

    @property
    def versions(self) -> list[int]:
        """The versions of the lake that were written."""
        return [each.manifest.version for each in self.outcomes if each.written]

    def until(self, heard: Callable[[], bool]) -> None:
        """Wait until something was reported; fail if the follower ends before that."""
        with self._changed:
            self._changed.wait_for(lambda: heard() or self.over, PATIENCE_S)
            if self.failure is not None:
                raise self.failure
            assert heard()

    def over_for(self, failure: BaseException | None) -> None:
        with self._changed:
            self.failure, self.over = failure, True
            self._changed.notify_all()

    def doing(self, what: str) -> None:
        self._begins(what)

    def waits(self, why: str) -> None:
        with self._changed:
            self.waited.append(why)
            self._changed.notify_all()

    def read(self, outcome: PipelineOutcome) -> None:
        self._fails(outcome)
        with self._changed:
            self.outcomes.append(outcome)
            self._changed.notify_all()

    def follows(self, found: Found) -> None:
        with self._changed:
            self.found.append(found)
            self._changed.notify_all()

    def problem(self, words: str) -> None:
        with self._changed:
            self.problems.append(words)
            self._changed.notify_all()


def a_follower(
    spark: SparkSession, heard: Heard, lake: Path, *recordings: Path, **more: Any
) -> Follower:
    """Return a follower that checks four times a second."""
    return Follower(
        spark, PipelineRequest(tuple(map(str, recordings)), str(lake), **more), 0.25, heard
    )


@contextmanager
def followed(
    spark: SparkSession, heard: Heard, lake: Path, *recordings: Path, **more: Any
) -> Iterator[Follower]:
    """Follow recordings in a thread; `Heard.until` raises an error that ends the follower early."""
    follower = a_follower(spark, heard, lake, *recordings, **more)

    def follow() -> None:
        try:
            follower.follow()
        except Exception as error:  # noqa: BLE001 - the test's thread raises it
            heard.over_for(error)
        else:
            heard.over_for(None)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield follower
    finally:
        follower.end()
        thread.join()


LIMIT_S = 900.0
"""Spark starts slowly on a busy machine."""


class FollowerProcess:
    """Follows recordings into a lake, every second, without backtests, simulations or insights.

    Args:
        folder: the parent of `lake`, `recorded` and `state`, and of its output, `said.txt`.
    """

    def __init__(self, folder: Path) -> None:
        self._said = folder / "said.txt"
        recorded, lake, state = (str(folder / name) for name in ("recorded", "lake", "state"))
        words = ["--recordings", recorded, "--lake", lake, "--state-dir", state, "--no-insights"]
        engine = "--engine=sail" if ENGINE == "sail" else "--master=local[1]"
        how = ["--follow", "--every=1s", engine]
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ktui", "pipeline", "run", *how, *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                env={**os.environ, **small_settings()},
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its JVM dies with it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def said(self) -> str:
        return self._said.read_text()

    def says(self, words: str) -> None:
        """Wait until its output contains `words`."""
        wait_for(lambda: words in self.said or self._process.poll() is not None, seconds=LIMIT_S)
        assert words in self.said

    def kill(self) -> None:
        """Kill it at once, with all processes that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


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
