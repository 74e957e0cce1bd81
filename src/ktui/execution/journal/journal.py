"""The journal of a run: what happened, for good, and what is asked of the process that owns it.

One SQLite file with a write-ahead log. One process appends events, the run's owner; any may ask
commands of it, and any may read.
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
from ktui.execution.journal.commands import Answer, Asked, Command
from ktui.execution.journal.event_table import EventTable
from ktui.execution.journal.patience import Patience, Tries
from ktui.execution.journal.recovery import recover
from ktui.execution.journal.tail_marker import write_head
from ktui.execution.run.events import AnyRunEvent, JournalEntry

_WRITTEN = "cannot be written"
_READ = "cannot be read"


class Journal:
    """One run's journal, open. Threads may take turns with it; two at once may not use it.

    Every call raises JournalProblem where the file cannot be read or written, with the reason. A
    journal that another process keeps locked is such a case, too: after some seconds, or with
    patience never.
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
        self._tries = Tries(connection, path, clock, patience)
        self._events = EventTable(connection, path)
        self._commands = CommandTable(connection, path)

    @classmethod
    def create(cls, path: Path, clock: Clock) -> Journal:
        """Make a new, empty journal.

        Raises:
            JournalProblem: there is one already, or it cannot be made.
        """
        return cls(file.create(path), path, clock)

    @classmethod
    def create_anew(cls, path: Path, clock: Clock) -> Journal:
        """Make a new, empty journal in place of one that nobody writes any more.

        Whoever reads the old one sees that it was replaced.

        Raises:
            JournalProblem: it cannot be made.
        """
        return cls(file.create_anew(path), path, clock)

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Clock,
        *,
        read_only: bool = False,
        patience: Patience | None = None,
    ) -> Self:
        """Open a journal that is there.

        Args:
            path: of its file.
            clock: the time of what is written.
            read_only: nothing is written.
            patience: for the run's owner, which waits for as long as the journal is locked.

        Raises:
            JournalProblem: it is not there, no journal, or one of a newer ktui.
        """
        return cls(file.connect(path, read_only=read_only), path, clock, patience)

    @classmethod
    def recover(cls, path: Path, clock: Clock, patience: Patience | None = None) -> Self:
        """Open a journal to go on with it; only the run's owner may.

        A damaged one is kept beside it as journal.damaged-TIME.db. In its place comes one of all
        that is whole from the beginning, and a `Recovered` event that says what was lost.

        Raises:
            JournalProblem: not one event of it can be read, or a newer ktui wrote it.
        """
        recover(path, clock.now())
        return cls.open(path, clock, patience=patience)

    @property
    def damage(self) -> str | None:
        """What `entries` stumbled over, and where; None as long as every event was whole."""
        return self._events.damage

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        """Write events in one transaction; they are on the disk when this returns.

        Raises:
            JournalProblem: the disk is full, or the like; none of them is in.
        """
        return self._append(lambda: self._events.append(events, self._clock.now()), events)

    def copy(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """Write events that another journal has, in one transaction and with their times there.

        Raises:
            JournalProblem: the disk is full, or the like; none of them is in.
        """
        timed = [(entry.at, entry.event) for entry in entries]
        return self._append(lambda: self._events.append_timed(timed), timed)

    def _append(
        self, write: Callable[[], list[JournalEntry]], events: Sequence[object]
    ) -> list[JournalEntry]:
        if not events:
            return []
        entries = self._tries.do(_WRITTEN, write)
        with suppress(OSError):  # an older note is as true, and tells less
            write_head(self.path, self._events.written)
        return entries

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        """Give the events after one, each held to the chain; stops at one that is not whole.

        `damage` then says what is wrong with it, and where.
        """
        return (entry for entry, _ in self._events.verified(after))

    def first(self) -> JournalEntry | None:
        """Return the event that the run began with; None where not even that is whole.

        It tells runs apart: no two are made at the same microsecond of the same plan.
        """
        return next(self.entries(), None)

    def ask(self, command: Command, who: str) -> int:
        """Ask something of the run's owner, and give the command's number."""
        return self._tries.do(_WRITTEN, lambda: self._commands.ask(command, who, self._clock.now()))

    def asked(self, *, unanswered: bool = True) -> list[Asked]:
        """Give the commands, in the order in which they were asked."""
        return self._tries.do(_READ, lambda: self._commands.asked(unanswered=unanswered))

    def answer(self, number: int, answer: Answer) -> None:
        """Say what became of a command; its first answer stays."""
        self._tries.do(_WRITTEN, lambda: self._commands.answer(number, answer))

    def answer_to(self, number: int) -> Asked:
        """Give a command as it stands."""
        return self._tries.do(_READ, lambda: self._commands.answer_to(number))

    def last_seq(self) -> int:
        """Give the number of the last event; 0 where there is none."""
        return self._tries.do(_READ, self._events.last_seq)

    def data_version(self) -> int:
        """Give a number that changes when another connection has written anything; it is cheap."""
        return self._tries.do(_READ, self._data_version)

    def _data_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Give the journal itself, to be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the file."""
        self.close()
