"""The engine's log: a line for each notable event, and for each error."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from ktui.cluster.ports import Verdict
from ktui.cluster.text import clean
from ktui.durable import check_replaceable
from ktui.execution.errors import JournalProblem
from ktui.execution.run import events
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.text import event_sentence
from ktui.quantities import as_count, as_duration

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


log = logging.getLogger(__name__)

_TROUBLE = (
    State.FAILED,
    State.STALLED,
    State.REFUSED,
    State.CHANGED_ELSEWHERE,
    State.TOPIC_GONE,
)


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
        """Go on waiting, unless the process must end."""
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
