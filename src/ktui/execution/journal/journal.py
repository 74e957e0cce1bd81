"""The journal of a run: its events, kept for good, and the commands to its owner.

The journal is one SQLite file with a write-ahead log. Only the run's owner appends events. Any
process may write commands, and any may read.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self, TypeVar

from ktui.cluster.clock import Clock, SystemClock
from ktui.execution import JournalProblem
from ktui.execution.journal import file
from ktui.execution.journal.commands import ENCODER, Answer, Command, StoredCommand, stored_command
from ktui.execution.journal.file import write_tail_marker
from ktui.execution.journal.tables import EventTable, format_time, recover
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Recovered
from ktui.execution.run.run import Run

OWNERS_TRY_S = 0.2  # SQLite's wait in one try of an owner; signals are handled in between
_PAUSE_S = 0.05  # between two tries: SQLite does not wait for every kind of lock

T = TypeVar("T")


class Patience(Protocol):
    """How a run's owner waits while others keep the journal locked, unless `waits` raises."""

    def begins(self, why: str) -> None: ...

    def waits(self) -> None:
        """Called before each further try. Raises JournalProblem: the wait is given up."""
        ...

    def ends(self, waited_s: float) -> None: ...


_WRITTEN = "cannot be written"
_READ = "cannot be read"
_SELECT = "SELECT id, at, who, body, answer FROM commands"


class Journal:
    """One run's journal, open. Threads may take turns with it; two may not use it at once.

    Every call raises JournalProblem with the reason if the file cannot be read or written. A
    journal that another process keeps locked counts as such a case after some seconds; with
    `patience` never.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        clock: Clock,
        patience: Patience | None = None,
    ) -> None:
        self.path = path
        self._connection = connection
        self._clock = clock
        self._patience = patience
        if patience is not None:
            connection.execute(f"PRAGMA busy_timeout = {int(OWNERS_TRY_S * 1000)}")
        self._events = EventTable(connection, path)

    @classmethod
    def create(cls, path: Path, clock: Clock) -> Journal:
        """Raises JournalProblem: it exists already, or cannot be created."""
        return cls(file.create(path), path, clock)

    @classmethod
    def create_replacement(cls, path: Path, clock: Clock) -> Journal:
        """Replace one that no process writes any more; readers of the old one see that."""
        return cls(file.create_replacement(path), path, clock)

    @classmethod
    def open(
        cls, path: Path, clock: Clock, *, read_only: bool = False, patience: Patience | None = None
    ) -> Self:
        """Open an existing one; `patience` is for the run's owner, who waits while it is locked."""
        return cls(file.connect(path, read_only=read_only), path, clock, patience)

    @classmethod
    def recover(cls, path: Path, clock: Clock, patience: Patience | None = None) -> Self:
        """Open a journal to go on with it, and repair it if damaged; only the run's owner may.

        A damaged file stays as journal.damaged-TIME.db. The new one has the intact events, and a
        `Recovered` event about the rest. Raises JournalProblem: nothing is intact, or a newer
        ktui's.
        """
        recover(path, clock.now())
        return cls.open(path, clock, patience=patience)

    @property
    def damage(self) -> str | None:
        """What ended the last `entries`, and where; None if every event was intact."""
        return self._events.damage

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        return self._append(lambda: self._events.append(events, self._clock.now()), events)

    def copy(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """Write another journal's events with their times; JournalProblem: none was written."""
        timed = [(entry.at, entry.event) for entry in entries]
        return self._append(lambda: self._events.append_timed(timed), timed)

    def _append(
        self, write: Callable[[], list[JournalEntry]], events: Sequence[object]
    ) -> list[JournalEntry]:
        if not events:
            return []
        entries = self._do(_WRITTEN, write)
        with suppress(OSError):  # an older note is still true, and proves less
            write_tail_marker(self.path, self._events.written)
        return entries

    def _do(self, what: str, work: Callable[[], T]) -> T:
        """Retry `work` while patience lasts, with no half writes; `what` is for errors."""
        began_s: float | None = None
        while True:
            try:
                result = work()
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._connection.rollback()
                if not isinstance(error, sqlite3.Error):
                    raise
                if self._patience is None or not file.is_lock(error):
                    raise file.sqlite_problem(self.path, what, error) from None
                if began_s is None:
                    began_s = self._clock.monotonic()
                    self._patience.begins(f"{self.path}: {file.LOCKED}")
                self._patience.waits()
                time.sleep(_PAUSE_S)
            else:
                if self._patience is not None and began_s is not None:
                    self._patience.ends(self._clock.monotonic() - began_s)
                return result

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        """Iterate over the intact events after `after`; `damage` then says what ended them."""
        return (entry for entry, _ in self._events.verified(after))

    def first(self) -> JournalEntry | None:
        """None if damaged. It identifies a run: no plan's begin in one microsecond."""
        return next(self.entries(), None)

    def last(self) -> JournalEntry | None:
        """Quick in long journals. None if damaged. Raises JournalProblem: nothing intact."""
        return next(self.entries(self.last_seq() - 1), None)

    def ask(self, command: Command, who: str) -> int:
        row = (format_time(self._clock.now()), who, ENCODER.encode(command).decode())
        insert = "INSERT INTO commands (at, who, body) VALUES (?, ?, ?)"
        asked = self._do(_WRITTEN, lambda: self._connection.execute(insert, row))
        return int(asked.lastrowid or 0)

    def asked(self, *, unanswered: bool = True) -> list[StoredCommand]:
        where = " WHERE answer IS NULL" if unanswered else ""
        return self._select(f"{where} ORDER BY id")

    def answer(self, number: int, answer: Answer) -> None:
        self.answer_to(number)
        update = "UPDATE commands SET answer = ? WHERE id = ? AND answer IS NULL"
        row = (ENCODER.encode(answer).decode(), number)
        self._do(_WRITTEN, lambda: self._connection.execute(update, row))

    def answer_to(self, number: int) -> StoredCommand:
        """Raises JournalProblem also if there is no such command."""
        for found in self._select(" WHERE id = ?", number):
            return found
        raise JournalProblem(f"{self.path}: there is no command {number}")

    def _select(self, where: str, *values: int) -> list[StoredCommand]:
        query = f"{_SELECT}{where}"
        rows = self._do(_READ, lambda: self._connection.execute(query, values).fetchall())
        return [stored_command(self.path, row) for row in rows]

    def last_seq(self) -> int:
        return self._do(_READ, self._events.last_seq)

    def data_version(self) -> int:
        query = "PRAGMA data_version"
        (version,) = self._do(_READ, lambda: self._connection.execute(query).fetchone())
        return int(version)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EngineJournal(Protocol):
    """The part of a journal that the engine of its run works with; `Journal` has it in a file."""

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        """Keep events before anything rests on them. Raises JournalProblem: no event was kept."""
        ...

    def asked(self) -> list[StoredCommand]:
        """Commands without an answer, in the order in which they were asked."""
        ...

    def answer(self, number: int, answer: Answer) -> None: ...

    def data_version(self) -> int:
        """Changes when a command may have arrived; cheap to read."""
        ...


class MemoryJournal:
    """A simulated run's journal, without commands; `pass_on` gets what is appended."""

    def __init__(self, clock: Clock, pass_on: Callable[[Sequence[JournalEntry]], None]) -> None:
        self._clock = clock
        self._pass_on = pass_on
        self.entries: list[JournalEntry] = []

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        now, after = self._clock.now(), len(self.entries)
        entries = [JournalEntry(after + n, now, event) for n, event in enumerate(events, start=1)]
        self.entries += entries
        if entries:
            self._pass_on(entries)
        return entries

    def asked(self) -> list[StoredCommand]:
        return []

    def answer(self, number: int, answer: Answer) -> None:
        """Answer a command, although there is none."""

    def data_version(self) -> int:
        return 0


class RunFollower:
    """A run by its journal, kept up to date, writing nothing. Raises JournalProblem."""

    def __init__(self, journal: Path, clock: Clock | None = None) -> None:
        self.path = journal
        self._clock = clock or SystemClock()
        self._version: int | None = None
        self._open()

    def refresh(self) -> list[JournalEntry]:
        """Apply and return new events; a replaced journal makes a new `run`."""
        if self._identity != _identity(self.path):
            self.close()
            self._open()
            return _since_recovery(self._read())
        version = self._journal.data_version()
        if version == self._version:
            return []
        new = self._read()
        self._version = version  # set last: if the read fails, the next call reads again
        return new

    def close(self) -> None:
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self._identity = _identity(self.path)
        self._journal = Journal.open(self.path, self._clock, read_only=True)
        self._version = None
        self.run = Run(self.path.parent.name)
        self.damage: str | None = None  # and where; None while all of it is intact

    def _read(self) -> list[JournalEntry]:
        new: list[JournalEntry] = []
        for entry in self._journal.entries(self.run.seq):
            try:
                self.run.apply(entry)
            except LookupError:
                self.damage = f"{self.path}: event {entry.seq} names a partition not in the run"
                return new
            new.append(entry)
        self.damage = self._journal.damage
        return new


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _since_recovery(entries: list[JournalEntry]) -> list[JournalEntry]:
    for index in reversed(range(len(entries))):
        if isinstance(entries[index].event, Recovered):
            return entries[index:]
    return entries
