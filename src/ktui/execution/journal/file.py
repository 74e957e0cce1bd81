"""The SQLite file of a journal: its schema, SQLite's errors, and the note of its last event."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ktui.durable import check_regular, open_regular, read_note, sync_folder
from ktui.execution import JournalProblem

_NOTE = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64})\n")


class TailMarker(msgspec.Struct, frozen=True):
    """The number and SHA-256 of the last event that was certainly written."""

    seq: int
    hash: bytes


def tail_marker_path(journal: Path) -> Path:
    """Return the path of a journal's note."""
    return journal.with_name(f"{journal.name}-head")


def read_tail_marker(journal: Path) -> TailMarker | None:
    """Read the note; None if it is missing or unreadable."""
    try:
        match = _NOTE.fullmatch(read_note(tail_marker_path(journal)))
    except OSError:
        return None
    return None if match is None else TailMarker(int(match[1]), bytes.fromhex(match[2].decode()))


def write_tail_marker(journal: Path, head: TailMarker) -> None:
    """Write the note in one write over the one before it, which is never longer. Raises OSError."""
    note = b"%d %s\n" % (head.seq, head.hash.hex().encode())
    file = open_regular(tail_marker_path(journal), os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(file, note, 0)
        os.ftruncate(file, len(note))
    finally:
        os.close(file)


SCHEMA_VERSION = 1
"""The version of the layout, and of the meaning of events and commands.

Raise it when a meaning changes: a ktui reads journals of its own version only. Before the first
release nothing raises it. After that a new kind of event does not raise it either, nor does a field
with a default that keeps the old meaning: a ktui that does not know them refuses them by name.
"""
BUSY_TIMEOUT_S = 5.0  # seconds for another process that writes; a run's owner waits without limit

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)

CREATE TABLE events (
  seq INTEGER PRIMARY KEY, at TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL
)

CREATE TABLE commands (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL, who TEXT NOT NULL, body TEXT NOT NULL, answer TEXT
)

CREATE TRIGGER events_without_gaps BEFORE INSERT ON events
  WHEN NEW.seq IS NOT (SELECT ifnull(max(seq), 0) + 1 FROM events)
  BEGIN SELECT RAISE(ABORT, 'events are numbered without gaps'); END

CREATE TRIGGER events_stay BEFORE DELETE ON events
  BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END

CREATE TRIGGER events_stay_as_they_are BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'events are never changed'); END
"""
_TABLES = "SELECT name, type, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
_LOCKS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
LOCKED = "another process keeps the journal locked"
_LOCKED = (
    LOCKED,
    "Try again. If that lasts, see who has the file open: a ktui stopped in a write, or sqlite3",
)
_CAUSES = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Make room on it"),
    sqlite3.SQLITE_IOERR: ("the disk reports an error", "See the system's log"),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: ("it is read-only", "Check who owns it and its folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "Check who owns it and its folder"),
    sqlite3.SQLITE_PERM: ("access is denied", "Check who owns it and its folder"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", ""),
    sqlite3.SQLITE_NOTADB: ("it is not an SQLite file, or its beginning is damaged", ""),
}
_NO_DAMAGE = _LOCKS | {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
}


class _Connection(sqlite3.Connection):
    """A connection on which damage is always an error of SQLite."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Raise sqlite3.Error also where SQLite quotes damaged text that is not UTF-8."""
        try:
            return super().execute(sql, parameters)
        except UnicodeDecodeError:
            raise sqlite3.DatabaseError("it is damaged") from None


def create(path: Path) -> sqlite3.Connection:
    """Create a file for its owner alone. Raises JournalProblem: it exists, or cannot be made."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise JournalProblem(f"{path}: there is a journal already") from None
    except OSError as error:
        raise JournalProblem(f"{path}: cannot be created: {error.strerror}") from None
    connection = _connected(path, "rw")
    with _closed_on_problem(path, connection, "cannot be created"):
        _prepare(connection)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != b"wal":
            raise JournalProblem(f"{path}: this file system cannot hold a journal. Use a local one")
        _lay_out(connection)
        sync_folder(path.parent)
    return connection


def create_replacement(path: Path) -> sqlite3.Connection:
    """Create a file in place of one that no process writes any more. Raises JournalProblem."""
    building = path.with_name(f"{path.stem}.building.db")
    create(building).close()
    for old in (tail_marker_path(path), *sqlite_side_files(path)):
        old.unlink(missing_ok=True)
    building.replace(path)
    return connect(path, read_only=False)


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a file. Raises JournalProblem: it is missing, no journal, or of another version."""
    try:
        check_regular(path)
    except OSError as error:
        raise JournalProblem(f"{path}: cannot be read: {error.strerror}") from None
    connection = _connected(path, "ro" if read_only else "rw")
    with _closed_on_problem(path, connection, "cannot be read as a journal"):
        _prepare(connection)
        _check_version(path, connection)
    return connection


def check_foreign(path: Path) -> None:
    """Check a file from elsewhere, which could be crafted to be read for ever.

    The tables of a journal must be tables, without computed columns, and each of their pages must
    belong to one place: reading takes time by the file's size. Raises JournalProblem.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as own:
        own.text_factory = bytes
        _lay_out(own)
        tables = own.execute(f"{_TABLES} AND type = 'table'").fetchall()
    with contextlib.closing(connect(path, read_only=True)) as connection:
        try:
            for table in tables:
                name = table[0].decode()
                found = connection.execute(f"{_TABLES} AND lower(name) = ?", (name,)).fetchall()
                if found != [table]:
                    raise JournalProblem(f"{path}: its {name} are not those of a journal")
                check = f"PRAGMA quick_check({name})"
                if connection.execute(check).fetchone() != (b"ok",):
                    raise JournalProblem(f"{path}: is damaged")
        except sqlite3.Error as error:
            raise sqlite_problem(path, "cannot be read as a journal", error) from None


def sqlite_side_files(path: Path) -> tuple[Path, Path]:
    """Return the paths of a file's write-ahead log and of its users' shared memory in SQLite."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def sqlite_problem(path: Path, what: str, error: BaseException) -> JournalProblem:
    """Return an error of SQLite as a problem of the journal, with a cause and a fix."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    cause, fix = _CAUSES.get(code, (str(error), ""))
    return JournalProblem(f"{path}: {what}: {cause}{f'. {fix}' if fix else ''}")


def is_damage(error: BaseException) -> bool:
    """Whether a read error is due to the file's content, and not to its other users."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NO_DAMAGE


def is_lock(error: BaseException) -> bool:
    """Whether an error is due to another process's lock on the file: it may pass."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKS


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,  # threads may take turns
            factory=_Connection,
        )
    except sqlite3.Error as error:
        raise sqlite_problem(path, "cannot be opened", error) from None


@contextlib.contextmanager
def _closed_on_problem(path: Path, connection: sqlite3.Connection, what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        connection.close()
        raise sqlite_problem(path, what, error) from None
    except BaseException:
        connection.close()
        raise


def _prepare(connection: sqlite3.Connection) -> None:
    connection.text_factory = bytes
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # a Mac's disk says "written" too early


def _lay_out(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    for statement in _SCHEMA.split("\n\n"):
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("SELECT seq, at, body, hash FROM events LIMIT 0")
    versions = set(_versions(connection))  # one of them may be damaged
    if SCHEMA_VERSION not in versions:
        raise JournalProblem(
            f"{path}: a journal of version {min(versions)}; this ktui reads version "
            f"{SCHEMA_VERSION}. Use the ktui that wrote it"
        )


def _versions(connection: sqlite3.Connection) -> Iterator[int]:
    yield connection.execute("PRAGMA user_version").fetchone()[0]
    with contextlib.suppress(sqlite3.DatabaseError, TypeError, ValueError):
        query = "SELECT value FROM meta WHERE name = 'schema_version'"
        yield int(connection.execute(query).fetchone()[0])
