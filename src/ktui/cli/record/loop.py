"""The loop of `ktui record`: looks, and tells how much has been recorded."""

from __future__ import annotations

import asyncio
import enum
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import FAILED, INTERRUPTED
from ktui.cli.options.recording import in_words
from ktui.cli.output.json_form import SCHEMA_VERSION, shown_json, utc
from ktui.cli.output.progress_line import ProgressLine
from ktui.cli.record.sources import ClusterRecording
from ktui.cluster.clock import Clock, SystemClock, wait_for_first
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.execution.host.state_dir import StateDir
from ktui.quantities import as_bytes, as_count, as_duration
from ktui.recording.recorder import Recorder

IDLE_S = 10.0
"""Between two steps of a run nothing may move for a moment."""
LONGEST_BACKOFF_S = 5.0
LEAST_PATIENCE_S, PATIENCE = 0.5, 0.75
"""How long a slow broker is waited for: this share of the interval, or longer."""


class Until(msgspec.Struct, frozen=True):
    """When a recording is over by itself."""

    seconds: float | None = None
    """After so long; None for never."""
    idle: bool = False
    """Once nothing has moved for a while."""

    @property
    def named(self) -> bool:
        """Whether it is over by itself at all."""
        return self.seconds is not None or self.idle

    @property
    def words(self) -> str:
        """Say it to people, after where the recording goes."""
        time = "" if self.seconds is None else f" for {as_duration(self.seconds)}"
        idle = f" until nothing has moved for {as_duration(IDLE_S)}" if self.idle else ""
        either = f"{time} or" if time and idle else time
        return f"{either}{idle}; Ctrl-C ends it{' sooner' if self.named else ''}"


class Over(enum.Enum):
    """How a recording came to its end."""

    AS_ASKED = enum.auto()
    INTERRUPTED = enum.auto()
    STOPPED = enum.auto()
    """It could not go on: the disk is full, or the like."""


class RecordedJson(msgspec.Struct, frozen=True, kw_only=True):
    """How far a recording is, after a poll."""

    schema_version: int = SCHEMA_VERSION
    at: str
    path: str | None
    """The folder that it goes to; null before the first look."""
    looks: int
    lost: int
    """Polls that failed as a whole."""
    moving: int
    """Partitions that the last look found being reassigned."""
    written_bytes: int
    """So far, compressed."""
    problem: str | None
    """Why nothing more is recorded, or what of this poll could not be."""

    @property
    def line(self) -> str:
        """Say it to people."""
        lost = f", {self.lost:,} lost" if self.lost else ""
        moving = as_count(self.moving, "partition")
        looks, written = as_count(self.looks, "look"), as_bytes(self.written_bytes)
        return f"{looks}{lost}, {moving} moving, {written}"


class RecordLoop:
    """Polls until it is over.

    Args:
        source: looks, and records.
        clock: the cluster's.
        interest: what is looked at beside what moves.
        interval_s: seconds between the starts of two polls.
        until: when it is over.
        tell: hears of each poll.
        say: takes what is out of the ordinary.
    """

    def __init__(
        self,
        source: ClusterRecording,
        clock: Clock,
        interest: Interest,
        interval_s: float,
        until: Until,
        *,
        tell: Callable[[RecordedJson], None],
        say: Callable[[str], None],
    ) -> None:
        self._source, self._clock, self._interest = source, clock, interest
        self._interval_s, self._until = interval_s, until
        self._tell, self._say = tell, say
        self._looks = self._lost = self._moving = self._failures = 0
        self._moved_s = self._began_s = clock.monotonic()
        """When something moved last, or it began."""
        self._said: str | None = None
        self._path: Path | None = None

    async def run(self, stop: asyncio.Event) -> Over:
        """Poll until it is over, or `stop` is set.

        Raises:
            ClusterError: the first poll failed.
        """
        while True:
            started_s = self._clock.monotonic()
            await self._look_unless(stop)
            self._say_where()
            self._tell(self.recorded())
            if self._source.recorder.problem is not None:
                return Over.STOPPED
            if stop.is_set():
                return Over.INTERRUPTED
            if self._is_over():
                return Over.AS_ASKED
            pause_s = started_s + self._pause_s - self._clock.monotonic()
            await wait_for_first(self._clock.sleep(max(0.0, pause_s)), stop.wait())

    def recorded(self) -> RecordedJson:
        """Say how far it is."""
        recorder = self._source.recorder
        return RecordedJson(
            at=utc(self._clock.now()),
            path=None if recorder.path is None else str(recorder.path),
            looks=self._looks,
            lost=self._lost,
            moving=self._moving,
            written_bytes=recorder.written_bytes,
            problem=recorder.problem or self._source.runs.problem,
        )

    async def _look_unless(self, stop: asyncio.Event) -> None:
        look = asyncio.ensure_future(self._look())
        try:
            await wait_for_first(asyncio.wait([look]), stop.wait())
            if look.done():
                look.result()
        finally:
            look.cancel()

    def _say_where(self) -> None:
        path = self._source.recorder.path
        if path != self._path:
            self._path = path
            self._say(f"recording into {path}{self._until.words}")

    async def _look(self) -> None:
        try:
            seen = await self._source.poll(self._interest)
        except ClusterError as error:
            self._take_loss(error)
            return
        self._looks += 1
        self._moving = len(seen.reassigning)
        if self._failures:
            self._failures = 0
            self._say("the cluster answers again")
        if self._moving or self._source.runs.going_on:
            self._moved_s = self._clock.monotonic()
        if self._source.runs.problem not in (None, self._said):
            self._said = self._source.runs.problem
            self._say(f"warning: {self._said}")

    def _take_loss(self, error: ClusterError) -> None:
        self._lost += 1
        self._failures += 1
        if not self._looks:
            raise error
        if self._failures == 1:
            self._say(f"the cluster is lost: {error}")

    @property
    def _pause_s(self) -> float:
        backoff_s = 0.5 * 2.0 ** min(self._failures, 8) if self._failures else 0.0
        return max(self._interval_s, min(LONGEST_BACKOFF_S, backoff_s))

    def _is_over(self) -> bool:
        now_s, seconds = self._clock.monotonic(), self._until.seconds
        if seconds is not None and now_s - self._began_s >= seconds:
            return True
        return self._until.idle and not self._failures and now_s - self._moved_s >= IDLE_S


async def record(
    cluster: Cluster,
    recorder: Recorder,
    state: StateDir,
    topics: frozenset[str],
    interval_s: float,
    until: Until,
    *,
    json: bool,
) -> int:
    """Record a cluster until it is over, and give the exit code.

    Raises:
        ClusterError: the first poll failed.
    """
    clock, reader, stop, line = SystemClock(), cluster.reader(), asyncio.Event(), ProgressLine()
    patience_s = max(LEAST_PATIENCE_S, PATIENCE * interval_s)
    observer = Observer(reader, clock, patience_s=patience_s)
    source = ClusterRecording(observer, recorder, state)
    tell = _tell_json if json else lambda recorded: line.show(recorded.line)
    loop = RecordLoop(
        source, clock, Interest(topics=topics), interval_s, until, tell=tell, say=line.say
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        over = await loop.run(stop)
    finally:
        await source.aclose()
        await observer.aclose()
        await reader.aclose()
    line.say(in_words(recorder, loop.recorded().looks))
    if over is Over.STOPPED:
        return FAILED
    return INTERRUPTED if over is Over.INTERRUPTED and until.named else 0


def _tell_json(recorded: RecordedJson) -> None:
    click.echo(shown_json(msgspec.json.encode(recorded).decode()))
    sys.stdout.flush()
