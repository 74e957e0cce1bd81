"""What an engine says beside its journal: a line for each event of note, and for each error."""

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
from ktui.execution.errors import JournalProblem
from ktui.execution.run.event_text import sentence
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    CancelGate,
    Configure,
    Configured,
    Elect,
    JournalEntry,
    NowIn,
    Outage,
    PlannedPart,
    Recording,
    SettingChanged,
    SettingsFound,
    SettingsLeft,
    Started,
    StepBegun,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.quantities import as_count, as_duration

MOST_BYTES = 1 << 20
"""A longer log is put aside, and a new one begun."""
_ASIDE = (".2", ".1")
"""What is put aside is named so, the older one first; what is older still is gone."""
_WARNING = " WARNING "


class LogFile(logging.StreamHandler[TextIO]):
    """Writes a line a record, in UTC; what repeats is told once, with how often it came.

    The process' standard output and error are the log, so that nothing that a library or the
    interpreter has to say is lost. With the log they are turned to the new file.

    Args:
        path: of the log.
        stream: what is written to; standard error by default.
        outputs: the numbers of the files to be turned to the new log.
        most_bytes: how long the log may become.
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
        """The newest record that says what the line before says, and is not written."""
        self._count = 0
        """How many there were."""
        form = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s")
        form.default_time_format, form.datefmt = "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S"
        form.converter = time.gmtime
        self.setFormatter(form)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless it says what the one before it said."""
        told = (record.levelno, record.getMessage())
        if told == self._last:
            self._again, self._count = record, self._count + 1
            return
        self._tell_again()
        self._last = told
        self._rotate()
        super().emit(record)

    def close(self) -> None:
        """Tell how often the last line came; the process ends."""
        self._tell_again()
        super().close()

    def _tell_again(self) -> None:
        """Tell how often the line before was to be written again, at the time of the last one."""
        if self._again is not None:
            times = "once" if self._count == 1 else f"{self._count:,} times"
            words = f"the same {times} more: {self._again.getMessage()}"
            again = {**self._again.__dict__, "msg": words, "args": ()}
            super().emit(logging.makeLogRecord(again))
        self._again, self._count = None, 0

    def _rotate(self) -> None:
        """Put a log aside that is too long; where that is not possible, it goes on as it is."""
        with suppress(OSError):
            written = os.fstat(self.stream.fileno())
            if written.st_size < self._most_bytes or not _is_at(self._path, written):
                return
            older, old = (self._path.with_name(f"{self._path.name}{end}") for end in _ASIDE)
            if old.exists():
                old.replace(older)
            self._path.replace(old)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            new = os.open(self._path, flags, 0o600)
            for output in self._outputs:
                os.dup2(new, output)
            os.close(new)


class Warnings:
    """The warnings that come to stand in an engine's log from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read: os.stat_result | None = log.stat() if log.exists() else None
        self._at = 0 if self._read is None else self._read.st_size

    def new(self) -> list[str]:
        """Give those since the last call, in whole lines and without their times."""
        whole: list[bytes] = []
        with suppress(OSError):
            if self._read is not None and not _is_at(self._log, self._read):
                aside = self._log.with_name(f"{self._log.name}{_ASIDE[-1]}")
                if _is_at(aside, self._read):
                    whole += self._lines(aside)
                self._at = 0
            whole += self._lines(self._log)
        told = (line.decode(errors="replace").strip().partition(_WARNING) for line in whole)
        return [clean(words) for _, sign, words in told if sign]

    def _lines(self, log: Path) -> list[bytes]:
        with log.open("rb") as file:
            self._read = os.fstat(file.fileno())
            file.seek(self._at)
            lines = file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        self._at += sum(map(len, whole))
        return whole


def _is_at(path: Path, file: os.stat_result) -> bool:
    """Whether a file is the one of that name."""
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


def log_to(path: Path) -> None:
    """Let ktui's log go to standard error, which is the file of that name."""
    logging.basicConfig(level=logging.INFO, handlers=[LogFile(path)])


class JournalWait:
    """The wait of an engine for a journal that another process keeps locked: told, and endable.

    It blocks the whole process, as it must: nothing is sent that is not in the journal.
    """

    def __init__(self) -> None:
        self.given_up: str | None = None
        """Why the process is to end, also in the middle of a wait; None while it is not."""

    def begins(self, why: str) -> None:
        """Tell that nothing goes on until the journal is free."""
        log.warning(
            "%s: nothing is decided and nothing is sent until it is free. See who has the file "
            "open: ktui stopped in a write, or sqlite3",
            why,
        )

    def waits(self) -> None:
        """Go on waiting, unless the process was told to end.

        Raises:
            JournalProblem: it was.
        """
        if self.given_up is not None:
            raise JournalProblem(f"{self.given_up} while another process kept the journal locked")

    def ends(self, waited_s: float) -> None:
        """Tell that the run goes on."""
        log.warning("the journal is free again after %s: the run goes on", as_duration(waited_s))


class EngineLog:
    """Tells of a run's events: decisions in a line each, and what is no part of a smooth run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def tell(self, entries: Iterable[JournalEntry]) -> None:
        """Tell of events that were just written."""
        events = [entry.event for entry in entries]
        begun = [event for event in events if isinstance(event, StepBegun)]
        if begun:
            done = f"{self._run.over:,} of {len(self._run.tracks):,} partitions have ended"
            log.info("decision %d: %s; %s", begun[-1].batch, as_count(len(begun), "step"), done)
        for event in events:
            level = _level(event)
            if level is not None:
                log.log(level, "%s", sentence(event))


def _level(event: AnyRunEvent) -> int | None:  # noqa: PLR0911 - a case a kind of event
    """Say how much an event is to be noted; None for what goes as it should."""
    match event:
        case Started() | PlannedPart() | StepBegun() | Elect() | SettingsFound() | Configure():
            return None
        case Answered() | Configured():
            return None if event.verdict is Verdict.ACCEPTED else logging.WARNING
        case Outage() | SettingChanged():
            return logging.WARNING
        case StepOver():
            return None if event.reached else logging.INFO
        case NowIn():
            return logging.WARNING if event.state in _TROUBLE else None
        case CancelGate():
            return logging.WARNING if event.shut else logging.INFO
        case SettingsLeft():
            return logging.WARNING if event.reason else None
        case Recording():
            return logging.WARNING if event.reason else logging.INFO
    return logging.INFO
