"""`ktui record`: record a cluster without a view, for `ktui replay`."""

from __future__ import annotations

import asyncio
import enum
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import click
import msgspec

from ktui.cli.context.cluster import Cluster, ClusterChoice, cluster_options
from ktui.cli.context.option import LazyGroup, add_option, refuse_options_before_verb
from ktui.cli.context.terminal import FAILED, INTERRUPTED, BadInput, ProgressLine, print_note
from ktui.cli.options import common
from ktui.cli.options.common import check_on_cluster
from ktui.cli.options.outward import recorded_in_words, recorder, recording_options, redaction
from ktui.cli.output.json_form import SCHEMA_VERSION, shown_json, utc
from ktui.cli.output.json_form import encode as as_json
from ktui.cli.record_prune import ClusterRecording, given_limits, prune_as_configured
from ktui.cluster.asking import LONGEST_BACKOFF_S
from ktui.cluster.clock import Clock, SystemClock, wait_for_first
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.ports import ClusterReader
from ktui.durable import make_folder
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import FileProblem
from ktui.quantities import Seconds, as_bytes, as_count, as_duration
from ktui.recording.reading import BadLine, find_segments, find_sessions, read_lines
from ktui.recording.recorder import Recorder, SegmentWriter
from ktui.recording.redact import Redaction
from ktui.recording.segments import UNFINISHED, AnyLine, encode, segment_path, session_folder
from ktui.recording.stored import Retention

IDLE_S = 10.0
"""Seconds without a move that count as idle; between two steps of a run, nothing moves briefly."""


class StopCondition(msgspec.Struct, frozen=True):
    """The condition on which a recording stops by itself."""

    seconds: float | None = None
    idle: bool = False  # stop once nothing has moved for `IDLE_S`

    @property
    def named(self) -> bool:
        return self.seconds is not None or self.idle

    @property
    def words(self) -> str:
        time = "" if self.seconds is None else f" for {as_duration(self.seconds)}"
        idle = f" until nothing has moved for {as_duration(IDLE_S)}" if self.idle else ""
        either = f"{time} or" if time and idle else time
        return f"{either}{idle}. Press Ctrl-C to stop{' sooner' if self.named else ''}"


class RecordingEnd(enum.Enum):
    """How a recording ended."""

    AS_ASKED = enum.auto()
    INTERRUPTED = enum.auto()
    STOPPED = enum.auto()  # the recording could not continue, for instance because the disk is full


class RecordedJson(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a recording after a poll."""

    schema_version: int = SCHEMA_VERSION
    at: str
    path: str | None  # the folder of the session; null before the first answered poll
    looks: int
    lost: int
    moving: int  # partitions that the last answered poll found being reassigned
    written_bytes: int
    problem: str | None
    """Why recording stopped, or what of this poll was not recorded; null if all was."""

    @property
    def line(self) -> str:
        lost = f", {self.lost:,} lost" if self.lost else ""
        moving = as_count(self.moving, "partition")
        looks, written = as_count(self.looks, "poll"), as_bytes(self.written_bytes)
        return f"{looks}{lost}, {moving} moving, {written}"


class RecordLoop:
    """Poll and record until the end condition holds."""

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
    """Record a cluster until the end condition holds, and return the exit code."""
    clock, stop, line = SystemClock(), asyncio.Event(), ProgressLine()
    patience_s = common.patience_s(interval_s)
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


MOST_SHOWN = 10


class _CopyJson(msgspec.Struct, kw_only=True):
    schema_version: int = SCHEMA_VERSION
    to: str
    sessions: int = 0
    files: int = 0
    lines: int = 0
    left_out: list[str] = msgspec.field(default_factory=list)
    """The places that could not be read, and why."""


def _copy_redacted(source: Path, to: Path, state: StateDir, *, json: bool) -> None:
    """Copy all sessions with names hidden, and print a summary. Damaged lines are left out."""
    copied = _CopyJson(to=str(to.absolute()))
    segments, problems = find_segments(source)
    numbers = {file.path: file.head.segment for file in segments}
    copied.left_out += map(str, problems)
    hide = redaction(state)
    for session in find_sessions(source):
        folder = session_folder(to, hide.head(session.head))
        make_folder(folder)
        for file in session.files:
            _copy_file(file, segment_path(folder, numbers[file]), hide, copied)
        copied.sessions += 1
    _print_summary(copied, json=json)


def _copy_file(file: Path, to: Path, hide: Redaction, copied: _CopyJson) -> None:
    if to.exists():
        raise FileProblem(to, None, "already exists. Name another folder with --to DIR")
    writer = SegmentWriter(to, UNFINISHED)
    try:
        for number, line in _whole_lines(file, copied):
            try:
                hidden = hide(line)
            except msgspec.DecodeError as error:
                copied.left_out.append(f"{file}:{number}: the line cannot be read: {error}")
                continue
            writer.write(encode(hidden), at_once=False)
            copied.lines += 1
        writer.close()
    finally:
        writer.abandon()
    copied.files += 1


def _whole_lines(file: Path, copied: _CopyJson) -> Iterator[tuple[int, AnyLine]]:
    try:
        for found in read_lines(file):
            if isinstance(found, BadLine):
                copied.left_out.append(f"{file}:{found.number}: {found.reason}")
            else:
                yield found.number, found.line
    except FileProblem as problem:  # gone meanwhile, or not readable to its end
        copied.left_out.append(str(problem))


def _print_summary(copied: _CopyJson, *, json: bool) -> None:
    for place in copied.left_out[:MOST_SHOWN]:
        print_note(f"left out: {place}")
    if len(copied.left_out) > MOST_SHOWN:
        print_note(f"left out: {len(copied.left_out) - MOST_SHOWN:,} more places")
    if json:
        click.echo(as_json(copied))
        return
    sessions, written = as_count(copied.sessions, "session"), as_count(copied.lines, "line")
    click.echo(f"copied {sessions}, {written}, with names hidden: {copied.to}")


_VERBS = {"prune": "ktui.cli.record_prune:command"}


@click.command("record", cls=LazyGroup, verbs=_VERBS, invoke_without_command=True)
@cluster_options
@common.topics_option("Also record every partition of this topic; may be repeated.")
@common.poll_interval_option
@add_option("--for TIME", "Stop after this time, such as 90s or 2h.", "for_")
@add_option("--until-idle", "Stop once nothing has moved, and no run has been active, for 10 s.")
@recording_options
@add_option(
    "--older-than TIME",
    "Prune the state directory first, and again each day: remove recordings older than this, "
    "such as 30d.",
)
@add_option(
    "--keep SIZE",
    "Prune the state directory first, and again each day: remove the oldest recordings beyond "
    "this size, such as 20GB.",
)
@add_option(
    "--from RECORDING",
    "Copy this file or folder instead of recording a cluster; needs --redact and --to.",
    "source",
    type=click.Path(path_type=Path, exists=True),
)
@add_option("--json", "Print one line of JSON for each poll.")
@common.state_dir_option
@click.pass_context
def command(  # noqa: PLR0913 - an option each
    context: click.Context,
    choice: ClusterChoice,
    *,
    topics: tuple[str, ...],
    poll_interval: float | None,
    for_: str | None,
    until_idle: bool,
    to: Path | None,
    redact: bool,
    older_than: str | None,
    keep: str | None,
    source: Path | None,
    json: bool,
    state: StateDir,
) -> None:
    """Record the reassignments of a cluster to files, until Ctrl-C.

    A recording holds what a live view sees. It includes the events of runs whose engines are on
    this machine. Changes nothing on the cluster. `ktui record prune` removes old recordings.

    Exit code 0 if the recording is complete, 1 if it had to stop early, 130 if it was interrupted
    before the end that --for or --until-idle sets.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before_verb(context)
        return
    until = StopCondition(_seconds(for_), idle=until_idle)
    limits = given_limits(older_than, keep)
    if source is not None:
        if any(choice) or topics or poll_interval or for_ or until_idle or limits:
            raise BadInput(
                "--from copies a recording: leave out cluster, limits and polling "
                "options. Give it with --redact and --to alone"
            )
        _copy(source, to, state, redact=redact, json=json)
        return
    if limits is not None and to is not None:
        raise BadInput(
            "--older-than and --keep prune the state directory, and --to records elsewhere. Leave "
            "them out, or prune that folder: ktui record prune --recordings DIR"
        )
    cluster = choice.cluster()
    clock, named = SystemClock(), cluster.name
    for warning in prune_as_configured(state, limits):
        print_note(warning)
    limited = limits is not None
    records = recorder(
        state, to, clock, cluster=named, verb="record", redact=redact, limited=limited
    )
    interval_s = poll_interval or cluster.context.poll_interval
    code = asyncio.run(
        record(
            cluster, records, state, frozenset(topics), interval_s, until, limits=limits, json=json
        )
    )
    sys.exit(code)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    if (seconds := common.parse_amount("--for", Seconds, text)) <= 0:
        raise BadInput("--for: give a time above 0, such as 90s or 2h")
    return seconds


def _copy(source: Path, to: Path | None, state: StateDir, *, redact: bool, json: bool) -> None:
    if not redact:
        raise BadInput(
            "--from makes a copy without names, and needs --redact. To keep the names, copy the "
            "files yourself"
        )
    if to is None:
        raise BadInput("--from needs a folder for the copy. Name one with --to DIR")
    _copy_redacted(source, to, state, json=json)
