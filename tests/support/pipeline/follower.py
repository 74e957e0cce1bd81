"""A follower of recordings in a thread, and a record of its reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ktui.pipeline.ingest.segments import Found
from ktui.pipeline.run.follow import Follower, FollowPrinter
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest

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
