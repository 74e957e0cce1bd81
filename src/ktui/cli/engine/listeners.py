"""What an engine tells other programs: notices to a command, and metrics in a file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from ktui.cli.output.event_json import engine_died_json, notice_json
from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.cluster.text import clean
from ktui.durable import write_output
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.forecast.progress_text import EngineTimes, metrics_text
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.operator_command import EventCommand
from ktui.execution.host.ownership import Holder
from ktui.execution.run.events import EventCommandFailed, JournalEntry
from ktui.execution.run.notices import NoticeFilter
from ktui.execution.run.run import Run
from ktui.execution.time_left.rest import Timelines

log = logging.getLogger(__name__)


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """Write the metrics after a poll, unless they were written just now."""
        self._polled = self._clock.now()
        is_writing = self._writing is not None and self._writing.is_alive()
        if is_writing or self._clock.monotonic() - self._written_s < EVERY_S:
            return
        self._written_s = self._clock.monotonic()
        self._write(timelines, up=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        except OSError as error:
            problem = f"--metrics-file {clean(str(path))}: cannot be written: {error.strerror}"
        else:
            problem = ""
        if problem and problem != self._problem:
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
