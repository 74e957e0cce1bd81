"""The progress of a run of the pipeline on the screen."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

import click

from ktui.pipeline.lake.engine import Py4JError

if TYPE_CHECKING:  # PySpark without a JVM has neither
    from pyspark import SparkContext, SparkStageInfo

_EVERY_S = 0.25
_CLEAR = "\r\x1b[K"


class SparkProgress:
    """Shows the current step and its done tasks of Spark; without a terminal, a line a step."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._doing = ""
        self._lock = threading.Lock()

    def tell(self, doing: str) -> None:
        with self._lock:
            self._doing = doing
            self._write(f"{_CLEAR}{doing} ..." if self._live else f"{doing}\n")

    def show(self, doing: str) -> None:
        if self._live:
            self.tell(doing)

    def say(self, text: str, *, err: bool = False) -> None:
        with self._lock:
            if self._live:
                self._write(_CLEAR)
            click.echo(text, err=err)
            if self._live and self._doing:
                self._write(f"{self._doing} ...")

    @contextmanager
    def following(self, context: SparkContext) -> Iterator[None]:
        over = threading.Event()
        follower = threading.Thread(target=self._follow, args=(context, over), daemon=True)
        if self._live:
            follower.start()
        try:
            yield
        finally:
            over.set()
            if self._live:
                follower.join()

    def close(self) -> None:
        if self._live:
            self._write(_CLEAR)

    def _follow(self, context: SparkContext, over: threading.Event) -> None:
        tracker = context.statusTracker()
        with suppress(Py4JError, OSError):  # the JVM has died: the job's caller gets the error
            while not over.wait(_EVERY_S):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                self._count([stage for stage in stages if stage is not None])

    def _count(self, stages: Sequence[SparkStageInfo]) -> None:
        tasks = sum(stage.numTasks for stage in stages)
        if tasks:
            done = sum(stage.numCompletedTasks for stage in stages)
            with self._lock:
                self._write(f"{_CLEAR}{self._doing} ... {done} of {tasks} tasks")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
