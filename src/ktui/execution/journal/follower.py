"""Follow a run that another process owns, by reading its journal."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from ktui.cluster.clock import Clock, SystemClock
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, Recovered
from ktui.execution.run.run import Run


class RunFollower:
    """A run by its journal, kept up to date by reading new events only. It writes nothing.

    Raises:
        JournalProblem: the journal cannot be opened, or the file is not a journal.
    """

    def __init__(self, journal: Path, clock: Clock | None = None) -> None:
        self.path = journal
        self._clock = clock or SystemClock()
        self._version: int | None = None
        self._open()

    def refresh(self) -> list[JournalEntry]:
        """Read the new events, apply them to `run`, and return them; cheap if there are none.

        If the journal was replaced by a recovered one, `run` is a new object. The returned events
        then begin with the recovery.

        Raises:
            JournalProblem: the journal cannot be read.
        """
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
        """Close the journal."""
        self._journal.close()

    def __enter__(self) -> Self:
        """Return the follower itself, to be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the journal."""
        self.close()

    def _open(self) -> None:
        self._identity = _identity(self.path)
        self._journal = Journal.open(self.path, self._clock, read_only=True)
        self._version = None
        self.run = Run(self.path.parent.name)
        self.damage: str | None = None
        """The damage of the journal, and where; None while all of it is intact."""

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
