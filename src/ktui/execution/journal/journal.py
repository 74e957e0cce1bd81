"""The journal of a run: its events, kept for good, and the commands to its owner.

The journal is one SQLite file with a write-ahead log. Only the run's owner appends events. Any
process may write commands, and any may read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ktui.cluster.clock import Clock
from ktui.execution.journal import file
from ktui.execution.journal.command_table import CommandTable
from ktui.execution.journal.commands import Answer, Command, StoredCommand
from ktui.execution.journal.event_table import EventTable
from ktui.execution.journal.patience import LockRetries, Patience
from ktui.execution.journal.recovery import recover
from ktui.execution.journal.tail_marker import write_tail_marker
from ktui.execution.run.events import AnyRunEvent, JournalEntry

_WRITTEN = "cannot be written"
_READ = "cannot be read"


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
        self._tries = LockRetries(connection, path, clock, patience)
        self._events = EventTable(connection, path)
        self._commands = CommandTable(connection, path)

    @classmethod
    def create(cls, path: Path, clock: Clock) -> Journal:
        """Create a new, empty journal.

        Raises:
            JournalProblem: the journal exists already, or cannot be created.
        """
        return cls(file.create(path), path, clock)

    @classmethod
    def create_anew(cls, path: Path, clock: Clock) -> Journal:
        """Create a new, empty journal in place of one that no process writes any more.

        Readers of the old journal see that it was replaced.

        Raises:
            JournalProblem: the journal cannot be created.
        """
        return cls(file.create_replacement(path), path, clock)

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Clock,
        *,
        read_only: bool = False,
        patience: Patience | None = None,
    ) -> Self:
        """Open an existing journal.

        Args:
            path: the journal's file.
            clock: the times of events and commands that are written.
            read_only: open for reading only.
            patience: for the run's owner, which waits for as long as the journal is locked.

        Raises:
            JournalProblem: the file is missing, is not a journal, or is one of a newer ktui.
        """
        return cls(file.connect(path, read_only=read_only), path, clock, patience)

    @classmethod
    def recover(cls, path: Path, clock: Clock, patience: Patience | None = None) -> Self:
        """Open a journal to go on with it, and repair it if damaged; only the run's owner may.

        A damaged file is kept beside it as journal.damaged-TIME.db. The new file holds the intact
        events from the beginning, and a `Recovered` event that says what was lost.

        Raises:
            JournalProblem: not one event can be read, or a newer ktui wrote the journal.
        """
        recover(path, clock.now())
        return cls.open(path, clock, patience=patience)

    @property
    def damage(self) -> str | None:
        """The damage that ended the last `entries`, and where; None if every event was intact."""
        return self._events.damage

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        """Write events in one transaction; they are on the disk when this returns.

        Raises:
            JournalProblem: the disk is full, or a similar cause; no event was written.
        """
        return self._append(lambda: self._events.append(events, self._clock.now()), events)

    def copy(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """Write events of another journal in one transaction, with their times from there.

        Raises:
            JournalProblem: the disk is full, or a similar cause; no event was written.
        """
        timed = [(entry.at, entry.event) for entry in entries]
        return self._append(lambda: self._events.append_timed(timed), timed)

    def _append(
        self, write: Callable[[], list[JournalEntry]], events: Sequence[object]
    ) -> list[JournalEntry]:
        if not events:
            return []
        entries = self._tries.do(_WRITTEN, write)
        with suppress(OSError):  # an older note is still true, and proves less
            write_tail_marker(self.path, self._events.written)
        return entries

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        """Iterate over the events after `after`, checking their hashes; stop at a damaged one.

        `damage` then says what is wrong, and where.
        """
        return (entry for entry, _ in self._events.verified(after))

    def first(self) -> JournalEntry | None:
        """Return the first event of the run; None if even that is damaged.

        The event identifies the run: no two are created at the same microsecond of the same plan.
        """
        return next(self.entries(), None)

    def ask(self, command: Command, who: str) -> int:
        """Write a command to the run's owner, and return its number."""
        return self._tries.do(_WRITTEN, lambda: self._commands.ask(command, who, self._clock.now()))

    def asked(self, *, unanswered: bool = True) -> list[StoredCommand]:
        """Return the commands without an answer, or all, in the order in which they were asked."""
        return self._tries.do(_READ, lambda: self._commands.asked(unanswered=unanswered))

    def answer(self, number: int, answer: Answer) -> None:
        """Write the answer to a command; its first answer stays."""
        self._tries.do(_WRITTEN, lambda: self._commands.answer(number, answer))

    def answer_to(self, number: int) -> StoredCommand:
        """Return a command with its answer, if there is one."""
        return self._tries.do(_READ, lambda: self._commands.answer_to(number))

    def last_seq(self) -> int:
        """Return the number of the last event; 0 if there is none."""
        return self._tries.do(_READ, self._events.last_seq)

    def data_version(self) -> int:
        """Return a number that changes with each write by another connection; cheap to read."""
        return self._tries.do(_READ, self._data_version)

    def _data_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Return the journal itself, to be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()
