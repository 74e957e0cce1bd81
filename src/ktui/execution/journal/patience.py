"""Tries at a journal that another process keeps locked: bounded for most, endless for its owner."""

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
"""SQLite waits so long in one try of an owner; a signal is handled between two tries."""
_PAUSE_S = 0.05
"""Between two tries, for SQLite does not wait for every kind of lock."""

T = TypeVar("T")


class Patience(Protocol):
    """What a run's owner does while another process keeps the journal locked.

    The owner waits for as long as it takes, unless `waits` raises.
    """

    def begins(self, why: str) -> None:
        """Take note that the wait has begun; called once for each wait.

        Args:
            why: the file, and that another process keeps it locked.
        """
        ...

    def waits(self) -> None:
        """Go on waiting; called before each further try.

        Raises:
            JournalProblem: the wait is to be given up.
        """
        ...

    def ends(self, waited_s: float) -> None:
        """Take note that the journal is free again.

        Args:
            waited_s: how long that took, in seconds.
        """
        ...


class Tries:
    """Uses of one connection, with SQLite's errors in words and nothing half written.

    Args:
        connection: to the journal.
        path: the journal's, for the words.
        clock: how long a wait takes.
        patience: of the run's owner; None gives up after SQLite's own wait.
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
        """Do something, anew for as long as the journal is locked and there is patience.

        Args:
            what: the words for an error, such as "cannot be written".
            work: what is done; where it fails, its transaction is rolled back.

        Raises:
            JournalProblem: SQLite cannot do it.
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
                if self._patience is None or not file.tells_of_a_lock(error):
                    raise file.problem(self._path, what, error) from None
                if began_s is None:
                    began_s = self._clock.monotonic()
                    self._patience.begins(f"{self._path}: {file.LOCKED}")
                self._patience.waits()
                time.sleep(_PAUSE_S)
            else:
                if self._patience is not None and began_s is not None:
                    self._patience.ends(self._clock.monotonic() - began_s)
                return result
