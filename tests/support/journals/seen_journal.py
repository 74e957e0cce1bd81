"""A journal that another process writes, read again only once it was written to."""

from __future__ import annotations

from pathlib import Path

from ktui.cluster.clock import SystemClock
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry


class SeenJournal:
    """Keeps a journal open, with its entries as of the last write to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: int | None = None
        self._entries: list[JournalEntry] = []
        self._open()

    def entries(self) -> list[JournalEntry]:
        """Return all entries, also of a journal that has taken the place of the first."""
        if self._path.stat().st_ino != self._file:
            self.close()
            self._open()
            self._version = None
        version = self._journal.data_version()
        if version != self._version:
            self._version, self._entries = version, list(self._journal.entries())
        return self._entries

    def close(self) -> None:
        self._journal.close()

    def _open(self) -> None:
        self._file = self._path.stat().st_ino if self._path.exists() else None
        self._journal = Journal.open(self._path, SystemClock(), read_only=True)
