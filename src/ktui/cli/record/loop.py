"""The loop of `ktui record`: poll, record, and report progress."""

from __future__ import annotations

import asyncio
import enum
import signal
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import click
import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import FAILED, INTERRUPTED, BadInput
from ktui.cli.options.on_cluster import check_on_cluster
from ktui.cli.options.recording import recorded_in_words
from ktui.cli.output.json_form import SCHEMA_VERSION, shown_json, utc
from ktui.cli.output.progress_line import ProgressLine
from ktui.cli.record.sources import ClusterRecording
from ktui.cluster.asking import LONGEST_BACKOFF_S, PATIENCE
from ktui.cluster.clock import Clock, SystemClock, wait_for_first
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.ports import ClusterReader
from ktui.execution.host.state_dir import StateDir
from ktui.quantities import as_bytes, as_count, as_duration
from ktui.recording.recorder import Recorder
from ktui.recording.retention import Retention

IDLE_S = 10.0
"""Seconds without a move that count as idle; between two steps of a run, nothing moves briefly."""
LEAST_PATIENCE_S = 0.5
"""Wait for a slow broker for at least so many seconds, however short the interval is."""


class StopCondition(msgspec.Struct, frozen=True):
    """The condition on which a recording stops by itself."""

    seconds: float | None = None
    """Stop after so many seconds; None for never."""
    idle: bool = False
    """Stop once nothing has moved for `IDLE_S`."""

    @property
    def named(self) -> bool:
        """Whether the recording stops by itself at all."""
        return self.seconds is not None or self.idle

    @property
    def words(self) -> str:
        """The condition as text, to follow the place of the recording."""
        time = "" if self.seconds is None else f" for {as_duration(self.seconds)}"
        idle = f" until nothing has moved for {as_duration(IDLE_S)}" if self.idle else ""
        either = f"{time} or" if time and idle else time
        return f"{either}{idle}. Press Ctrl-C to stop{' sooner' if self.named else ''}"


class RecordingEnd(enum.Enum):
    """How a recording ended."""

    AS_ASKED = enum.auto()
    INTERRUPTED = enum.auto()
    STOPPED = enum.auto()
    """The recording could not continue, for instance because the disk is full."""


class RecordedJson(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a recording after a poll."""

    schema_version: int = SCHEMA_VERSION
    at: str
    path: str | None
    """The folder of the session; null before the first answered poll."""
    looks: int
    """Answered polls."""
    lost: int
    """Polls that failed as a whole."""
    moving: int
    """Partitions that the last answered poll found being reassigned."""
    written_bytes: int
    """Compressed bytes written so far."""
    problem: str | None
    """Why recording stopped, or what of this poll was not recorded; null if all was."""

    @property
    def line(self) -> str:
        """The progress as one line of text."""
        lost = f", {self.lost:,} lost" if self.lost else ""
        moving = as_count(self.moving, "partition")
        looks, written = as_count(self.looks, "poll"), as_bytes(self.written_bytes)
        return f"{looks}{lost}, {moving} moving, {written}"


class RecordLoop:
    """Poll and record until the end condition holds.

    Args:
        source: polls the cluster, and records.
        clock: the cluster's clock.
        interest: what to poll beside what moves.
        interval_s: seconds between the starts of two polls.
        until: the end condition.
        report: called with the progress after each poll.
        notify: called with a sentence about anything out of the ordinary.
    """

    def __init__(
        self,
        source: ClusterRecording,
        clock: Clock,
        interest: Interest,
        interval_s: float,
        until: StopCondition,
        *,
        report: Callable[[RecordedJson], None],
        notify: Callable[[str], None],
    ) -> None:
        self._source, self._clock, self._interest = source, clock, interest
        self._interval_s, self._until = interval_s, until
        self._report, self._notify = report, notify
        self._polls = self._lost = self._moving = self._failures = 0
        self._moved_s = self._began_s = clock.monotonic()
        """The second of the last move, or of the beginning."""
        self._last_warning: str | None = None
        self._path: Path | None = None

    async def run(self, stop: asyncio.Event) -> RecordingEnd:
        """Poll until the end condition holds, or `stop` is set.

        Raises:
            ClusterError: the first poll failed.
        """
        while True:
            started_s = self._clock.monotonic()
            await self._poll_unless(stop)
            self._report_place()
            self._report(self.recorded())
            if self._source.recorder.problem is not None:
                return RecordingEnd.STOPPED
            if stop.is_set():
                return RecordingEnd.INTERRUPTED
            if self._is_over():
                return RecordingEnd.AS_ASKED
            pause_s = started_s + self._pause_s - self._clock.monotonic()
            await wait_for_first(self._clock.sleep(max(0.0, pause_s)), stop.wait())

    def recorded(self) -> RecordedJson:
        """Return the progress so far."""
        recorder = self._source.recorder
        return RecordedJson(
            at=utc(self._clock.now()),
            path=None if recorder.path is None else str(recorder.path),
            looks=self._polls,
            lost=self._lost,
            moving=self._moving,
            written_bytes=recorder.written_bytes,
            problem=recorder.problem or self._source.runs.problem,
        )

    async def _poll_unless(self, stop: asyncio.Event) -> None:
        poll = asyncio.ensure_future(self._poll())
        try:
            await wait_for_first(asyncio.wait([poll]), stop.wait())
            if poll.done():
                poll.result()
        finally:
            poll.cancel()

    def _report_place(self) -> None:
        path = self._source.recorder.path
        if path != self._path:
            self._path = path
            self._notify(f"recording into {path}{self._until.words}")

    async def _poll(self) -> None:
        try:
            seen = await self._source.poll(self._interest)
        except ClusterError as error:
            self._count_loss(error)
            return
        self._polls += 1
        self._moving = len(seen.reassigning)
        if self._failures:
            self._failures = 0
            self._notify("the cluster answers again")
        if self._moving or self._source.runs.going_on:
            self._moved_s = self._clock.monotonic()
        if self._source.runs.problem not in (None, self._last_warning):
            self._last_warning = self._source.runs.problem
            self._notify(f"warning: {self._last_warning}")

    def _count_loss(self, error: ClusterError) -> None:
        self._lost += 1
        self._failures += 1
        if not self._polls:
            raise error
        if self._failures == 1:
            self._notify(f"the cluster is lost: {error}")

    @property
    def _pause_s(self) -> float:
        backoff_s = 0.5 * 2.0 ** min(self._failures, 8) if self._failures else 0.0
        return max(self._interval_s, min(LONGEST_BACKOFF_S, backoff_s))

    def _is_over(self) -> bool:
        now_s, seconds = self._clock.monotonic(), self._until.seconds
        if seconds is not None and now_s - self._began_s >= seconds:
            return True
        return self._until.idle and not self._failures and now_s - self._moved_s >= IDLE_S


async def _warn_of_unknown(
    reader: ClusterReader, clock: Clock, topics: frozenset[str], line: ProgressLine
) -> None:
    """Warn of topics that are not there; they may still be created while the recording goes on."""
    if not topics:
        return
    async with aclosing(Observer(reader, clock)) as observer:
        seen = await observer.poll(Interest(topics=topics))
    try:
        await check_on_cluster(reader, clock, seen, sorted(topics))
    except BadInput as unknown:
        line.print(f"warning: --topic: {unknown}; it is recorded from when it is created")


async def record(  # noqa: PLR0913 - an option each
    cluster: Cluster,
    recorder: Recorder,
    state: StateDir,
    topics: frozenset[str],
    interval_s: float,
    until: StopCondition,
    *,
    limits: Retention | None,
    json: bool,
) -> int:
    """Record a cluster until the end condition holds, and return the exit code.

    Raises:
        ClusterError: the first poll failed.
    """
    clock, stop, line = SystemClock(), asyncio.Event(), ProgressLine()
    patience_s = max(LEAST_PATIENCE_S, PATIENCE * interval_s)
    report = _print_json if json else lambda recorded: line.show(recorded.line)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        aclosing(cluster.reader()) as reader,
        aclosing(Observer(reader, clock, patience_s=patience_s)) as observer,
        aclosing(ClusterRecording(observer, recorder, state, limits)) as source,
    ):
        await _warn_of_unknown(reader, clock, topics, line)
        loop = RecordLoop(
            source,
            clock,
            Interest(topics=topics),
            interval_s,
            until,
            report=report,
            notify=line.print,
        )
        over = await loop.run(stop)
    line.print(recorded_in_words(recorder, loop.recorded().looks))
    if over is RecordingEnd.STOPPED:
        return FAILED
    return INTERRUPTED if over is RecordingEnd.INTERRUPTED and until.named else 0


def _print_json(recorded: RecordedJson) -> None:
    click.echo(shown_json(msgspec.json.encode(recorded).decode()))
    sys.stdout.flush()
