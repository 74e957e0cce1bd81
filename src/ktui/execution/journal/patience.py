"""Retry a journal that another process keeps locked: for some seconds, or as its owner for ever."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from ktui.cluster.clock import Clock
from ktui.execution.journal import file

OWNERS_TRY_S = 0.2
"""SQLite's wait in one try of an owner; signals are handled between two tries."""
_PAUSE_S = 0.05
"""The pause between two tries, for SQLite does not wait for every kind of lock."""

T = TypeVar("T")


class Patience(Protocol):
    """The conduct of a run's owner while another process keeps the journal locked.

    The owner waits for as long as the lock lasts, unless `waits` raises.
    """

    def begins(self, why: str) -> None:
        """Note that a wait has begun; called once for each wait.

        Args:
            why: the file, and that another process keeps it locked.
        """
        ...

    def waits(self) -> None:
        """Continue a wait; called before each further try.

        Raises:
            JournalProblem: the wait is given up.
        """
        ...

    def ends(self, waited_s: float) -> None:
        """Note that the journal is free again.

        Args:
            waited_s: the length of the wait, in seconds.
        """
        ...


class LockRetries:
    """Use one connection with retries, SQLite's errors as problems, and nothing half written.

    Args:
        connection: the connection to the journal.
        path: the journal's file, for error texts.
        clock: measures waits.
        patience: that of the run's owner; with None, give up after SQLite's own wait.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, clock: Clock, patience: Patience | None
    ) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._patience = patience
        if patience is not None:
            connection.execute(f"PRAGMA busy_timeout = {int(OWNERS_TRY_S * 1000)}")

    def do(self, what: str, work: Callable[[], T]) -> T:
        """Call a function, again and again while the journal is locked and patience lasts.

        Args:
            what: the text of an error, such as "cannot be written".
            work: the function; if it fails, its transaction is rolled back.

        Raises:
            JournalProblem: SQLite has refused the work.
        """
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
                    raise file.sqlite_problem(self._path, what, error) from None
                if began_s is None:
                    began_s = self._clock.monotonic()
                    self._patience.begins(f"{self._path}: {file.LOCKED}")
                self._patience.waits()
                time.sleep(_PAUSE_S)
            else:
                if self._patience is not None and began_s is not None:
                    self._patience.ends(self._clock.monotonic() - began_s)
                return result
