"""What an engine tells others: its log, notices to a command, and metrics in a file."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TextIO

from ktui.cli.output.json_form import engine_died_json, notice_json
from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.cluster.ports import Verdict
from ktui.cluster.text import clean
from ktui.durable import check_replaceable, write_output
from ktui.execution import JournalProblem
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.forecast.progress_text import EngineTimes, metrics_text
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.operator_command import EventCommand
from ktui.execution.host.ownership import Holder
from ktui.execution.run import events
from ktui.execution.run.events import EventCommandFailed, JournalEntry
from ktui.execution.run.notices import NoticeFilter
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.text import event_sentence
from ktui.execution.time_left.rest import Timelines
from ktui.quantities import as_count, as_duration

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 20  # the size in bytes at which a log is rotated
_ASIDE = (".2", ".1")
"""The suffixes of rotated logs, the older one first; still older logs are deleted."""
_WARNING = " WARNING "


class LogFile(logging.StreamHandler[TextIO]):
    """Writes one line for each record, in UTC; a repeated line is written once, with its count.

    The standard output and error of the process are the log. So no message of a library or the
    interpreter is lost. A rotation, at `most_bytes`, points both (`outputs`) to the new file.
    """

    def __init__(
        self,
        path: Path,
        stream: TextIO | None = None,
        outputs: Sequence[int] = (1, 2),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        super().__init__(stream or sys.stderr)
        self._path = path
        self._outputs = outputs
        self._most_bytes = most_bytes
        self._last: tuple[int, str] | None = None
        self._again: logging.LogRecord | None = None
        """The newest record that repeats the last line, not yet written."""
        self._count = 0
        form = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s")
        form.default_time_format, form.datefmt = "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S"
        form.converter = time.gmtime
        self.setFormatter(form)

    def emit(self, record: logging.LogRecord) -> None:
        message = (record.levelno, record.getMessage())
        if message == self._last:
            self._again, self._count = record, self._count + 1
            return
        self._write_repeats()
        self._last = message
        self._rotate()
        super().emit(record)

    def close(self) -> None:
        self._write_repeats()
        super().close()

    def _write_repeats(self) -> None:
        if self._again is not None:
            times = "once" if self._count == 1 else f"{self._count:,} times"
            words = f"repeated {times}: {self._again.getMessage()}"
            again = {**self._again.__dict__, "msg": words, "args": ()}
            super().emit(logging.makeLogRecord(again))
        self._again, self._count = None, 0

    def _rotate(self) -> None:
        """Rotate a log that is too long; if that fails, go on with the same file."""
        with suppress(OSError):
            status = os.fstat(self.stream.fileno())
            if status.st_size < self._most_bytes or not _is_at(self._path, status):
                return
            older, old = (self._path.with_name(f"{self._path.name}{end}") for end in _ASIDE)
            check_replaceable(older)
            check_replaceable(old)
            if old.exists():
                old.replace(older)
            self._path.replace(old)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            new = os.open(self._path, flags, 0o600)
            for output in self._outputs:
                os.dup2(new, output)
            os.close(new)


class WarningReader:
    """The warnings that an engine's log gets from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read: os.stat_result | None = log.stat() if log.exists() else None
        self._at = 0 if self._read is None else self._read.st_size

    def new(self) -> list[str]:
        """Return the warnings since the last call, in whole lines and without their times."""
        whole: list[bytes] = []
        with suppress(OSError):
            if self._read is not None and not _is_at(self._log, self._read):
                aside = self._log.with_name(f"{self._log.name}{_ASIDE[-1]}")
                if _is_at(aside, self._read):
                    whole += self._lines(aside)
                self._at = 0
            whole += self._lines(self._log)
        parts = (line.decode(errors="replace").strip().partition(_WARNING) for line in whole)
        return [clean(words) for _, sign, words in parts if sign]

    def _lines(self, log: Path) -> list[bytes]:
        with log.open("rb") as file:
            self._read = os.fstat(file.fileno())
            file.seek(self._at)
            lines = file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        self._at += sum(map(len, whole))
        return whole


def _is_at(path: Path, file: os.stat_result) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino)


_TROUBLE = (State.FAILED, State.STALLED, State.REFUSED, State.CHANGED_ELSEWHERE, State.TOPIC_GONE)


def configure_log(path: Path) -> None:
    """Send ktui's log to standard error, which is the file at `path`."""
    logging.basicConfig(level=logging.INFO, handlers=[LogFile(path)])


class JournalWait:
    """Logs an engine's wait for a journal that another process keeps locked, and can end the wait.

    The wait blocks the whole process, as it must: nothing is sent that is not in the journal.
    """

    def __init__(self) -> None:
        self.given_up: str | None = None
        """Why the process must end, even during a wait; None while it need not."""

    def begins(self, why: str) -> None:
        log.warning(
            "%s. ktui decides and sends nothing until the journal is free. Find the process that "
            "has the file open: a ktui stopped in a write, or sqlite3",
            why,
        )

    def waits(self) -> None:
        if self.given_up is not None:
            raise JournalProblem(f"{self.given_up} while another process kept the journal locked")

    def ends(self, waited_s: float) -> None:
        log.warning("the journal is free again after %s. The run continues", as_duration(waited_s))


class EngineLog:
    """Logs a run's events: one line for each decision, and anything unusual."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def write(self, entries: Iterable[events.JournalEntry]) -> None:
        written = [entry.event for entry in entries]
        begun = [event for event in written if isinstance(event, events.StepBegun)]
        if begun:
            done = f"{self._run.over:,} of {len(self._run.tracks):,} partitions have ended"
            log.info("decision %d: %s; %s", begun[-1].batch, as_count(len(begun), "step"), done)
        for event in written:
            level = _level(event)
            if level is not None:
                log.log(level, "%s", event_sentence(event))


def _level(event: events.AnyRunEvent) -> int | None:  # noqa: PLR0911 - a case a kind of event
    match event:
        case (
            events.Started()
            | events.PlannedPart()
            | events.StepBegun()
            | events.Elect()
            | events.SettingsFound()
            | events.Configure()
        ):
            return None
        case events.Answered() | events.Configured():
            return None if event.verdict is Verdict.ACCEPTED else logging.WARNING
        case events.Outage() | events.SettingChanged() | events.EventCommandFailed():
            return logging.WARNING
        case events.StepOver():
            return None if event.reached else logging.INFO
        case events.StateEntered():
            return logging.WARNING if event.state in _TROUBLE else None
        case events.CancelGate():
            return logging.WARNING if event.shut else logging.INFO
        case events.SettingsGivenUp():
            return logging.WARNING if event.reason else None
        case events.Recording():
            return logging.WARNING if event.reason else logging.INFO
    return logging.INFO


class RunNotices(AbstractContextManager["RunNotices", None]):
    """The notices of a run, from the moment at which its engine has a command for them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._filter = NoticeFilter()
        self._run: Run | None = None
        self._command: EventCommand | None = None

    def begin(self, run: Run, command: str) -> None:
        """Hand on the notices of a run from now on; an empty command gets none."""
        self._run = run
        self._command = EventCommand(command) if command else None

    def take(self, entries: Iterable[JournalEntry]) -> None:
        if self._command is None or self._run is None:
            return
        for notice in self._filter.take(entries):
            self._command.send(notice_json(self._run, notice))

    def failures(self) -> list[EventCommandFailed]:
        failures = [] if self._command is None else self._command.failures()
        return [EventCommandFailed(reason=reason) for reason in failures]

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if self._command is None or self._run is None:
            return
        if isinstance(error, Exception):
            died = engine_died_json(self._run, self._clock.now(), clean(str(error)))
            self._command.send(died)
        for failure in self._command.close():
            log.warning("%s", failure)


EVERY_S = 5.0  # seconds between two writes, at least
_MODE = 0o644  # for a collector, which is another user
_LAST_S = 5.0  # seconds that the last write gets when the engine ends


class RunMetrics(AbstractContextManager["RunMetrics", None]):
    """The metrics of a run, written now and then by a thread: a slow disk slows no run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = self._polled = clock.now()
        self._path: Path | None = None
        self._run: Run | None = None
        self._entries: list[JournalEntry] = []
        self._written_s = -EVERY_S
        self._writing: threading.Thread | None = None
        self._problem = ""

    def begin(self, run: Run, owner: Holder, path: str, earlier: EarlierRuns) -> None:
        """Write the metrics of a run from now on; an empty path writes none."""
        if path:
            self._path, self._run, self._owner = Path(path), run, owner
            self._estimate = Estimate(run, earlier)

    def take(self, entries: Iterable[JournalEntry]) -> None:
        """Learn from new entries of the journal, once the run has applied them."""
        if self._path is not None:
            self._entries += entries

    def through(
        self, source: ObservationSource, timelines: Callable[[], Timelines]
    ) -> ObservationSource:
        """Return a source that writes the metrics after a poll, by the timelines so far."""
        if self._path is None:
            return source
        return AfterPoll(source, lambda: self.write_if_due(timelines()))

    def write_if_due(self, timelines: Timelines) -> None:
        self._polled = self._clock.now()
        is_writing = self._writing is not None and self._writing.is_alive()
        if is_writing or self._clock.monotonic() - self._written_s < EVERY_S:
            return
        self._written_s = self._clock.monotonic()
        self._write(timelines, up=True)

    def __exit__(self, *_: object) -> None:
        if self._writing is not None:
            self._writing.join(_LAST_S)
        self._write({}, up=False)
        if self._writing is not None:
            self._writing.join(_LAST_S)

    def _write(self, timelines: Timelines, *, up: bool) -> None:
        try:
            self._begin_write(timelines, up=up)
        except Exception as error:  # a defect here must not end a run; the next write may succeed
            if repr(error) != self._problem:
                log.exception("no metrics were written")
            self._problem = repr(error)

    def _begin_write(self, timelines: Timelines, *, up: bool) -> None:
        if self._path is None or self._run is None:
            return
        entries, self._entries = self._entries, []
        self._estimate.take(entries)
        self._estimate.update(self._polled, timelines)
        engine = EngineTimes(up, self._since, self._polled)
        owner, copied = self._owner if up else None, self._estimate.copied
        progress = run_progress(self._run, owner, now=self._polled, copied=copied)
        text = metrics_text(progress, engine)
        writing = threading.Thread(
            target=self._replace, args=(self._path, text.encode()), daemon=True
        )
        writing.start()
        self._writing = writing

    def _replace(self, path: Path, content: bytes) -> None:
        try:
            write_output(path, content, mode=_MODE)
            self._problem = ""
        except OSError as error:
            problem = f"--metrics-file {clean(str(path))}: cannot be written: {error.strerror}"
            if problem != self._problem:
                log.warning("%s", problem)
            self._problem = problem


class AfterPoll(SourceWrapper):
    """Does something after each poll, whatever came of that."""

    def __init__(self, source: ObservationSource, act: Callable[[], None]) -> None:
        super().__init__(source)
        self._act = act

    async def poll(self, interest: Interest) -> Observation:
        try:
            return await super().poll(interest)
        finally:
            self._act()
