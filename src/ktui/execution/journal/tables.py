"""The events of a journal's file, trusted as far as their hashes match, and its recovery."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ktui.durable import sync_folder
from ktui.execution import JournalProblem
from ktui.execution.journal.file import (
    TailMarker,
    connect,
    create,
    is_damage,
    read_tail_marker,
    sqlite_problem,
    sqlite_side_files,
    write_tail_marker,
)
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    Paused,
    PauseOrigin,
    Recovered,
    decode,
    encode,
)
from ktui.json_text import checked_moment

GENESIS = bytes(32)  # the hash before the first event
_AT_ONCE = 500  # rows of one read: a long one would keep the write-ahead log from a reset
StoredRow = tuple[Any, ...]  # seq, at, body, hash as stored; any types in a damaged file


def chain_hash(previous: bytes, seq: int, at: bytes, body: bytes) -> bytes:
    """Return an event's SHA-256, over the one before, its number, time and JSON as stored."""
    return hashlib.sha256(b"%b%d\n%b\n%b" % (previous, seq, at, body)).digest()


class _Damaged(Exception):
    """The next event is damaged or missing; the message says how and where."""


class EventTable:
    """The events of one file, through one connection."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._verified = TailMarker(0, GENESIS)
        self.written = TailMarker(0, GENESIS)  # the last event that this connection has written
        self.damage: str | None = None  # what ended the last `verified`, and where
        self.newer = False  # whether that was an intact event that only a newer ktui knows

    def append(self, events: Sequence[AnyRunEvent], now: datetime) -> list[JournalEntry]:
        """Write them to the disk, in one transaction. JournalProblem: the last event is damaged."""
        return self.append_timed([(now, event) for event in events])

    def append_timed(self, events: Sequence[tuple[datetime, AnyRunEvent]]) -> list[JournalEntry]:
        self._connection.execute("BEGIN IMMEDIATE")
        head = self.head()
        rows, entries = [], []
        for seq, (moment, event) in enumerate(events, start=head.seq + 1):
            at, body = format_time(moment), encode(event)
            head = TailMarker(seq, chain_hash(head.hash, seq, at.encode(), body))
            rows.append((seq, at, body.decode(), head.hash.hex()))
            entries.append(JournalEntry(seq, datetime.fromisoformat(at), event))
        self.insert(rows)
        self._connection.execute("COMMIT")
        self.written = head
        return entries

    def insert(self, rows: Sequence[StoredRow]) -> None:
        self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)

    def last_seq(self) -> int:
        """Damaged ones count; 0 if there is none."""
        (seq,) = self._connection.execute("SELECT ifnull(max(seq), 0) FROM events").fetchone()
        return int(seq)

    def head(self) -> TailMarker:
        """Return the last number and hash as stored. Raises JournalProblem: a damaged hash."""
        return self._stored(self.last_seq())

    def count_after(self, seq: int) -> int | None:
        """Damaged ones count; None if the file cannot be read."""
        try:
            query = "SELECT count(*) FROM events WHERE seq > ?"
            (count,) = self._connection.execute(query, (seq,)).fetchone()
        except sqlite3.Error:
            return None
        return int(count)

    def verified(self, after: int = 0) -> Iterator[tuple[JournalEntry, StoredRow]]:
        """Yield the intact events after `after` with their rows; then set `damage`."""
        self.damage, self.newer = None, False
        written = read_tail_marker(self._path)
        try:
            last = self._verified if after == self._verified.seq else self._stored(after)
            for row in self._rows(after):
                entry, last = self._checked(row, last)
                _check_marker(written, last)
                self._verified = last
                yield entry, row
            if written is not None and last.seq < written.seq:
                missing = f"events {last.seq + 1} to {written.seq} are missing"
                self.damage = f"{self._path}: {missing}"
        except _Damaged as damaged:
            self.damage = f"{self._path}: {damaged}"
        except (sqlite3.Error, MemoryError) as error:
            if not is_damage(error):
                raise sqlite_problem(self._path, "cannot be read", error) from None
            self.damage = f"{self._path}: after event {last.seq}: {error or 'it is damaged'}"

    def _stored(self, seq: int) -> TailMarker:
        if seq == 0:
            return TailMarker(0, GENESIS)
        row = self._connection.execute("SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone()
        try:
            return TailMarker(seq, bytes.fromhex(row[0].decode()))
        except (TypeError, ValueError, AttributeError):
            raise JournalProblem(f"{self._path}: event {seq} is missing or damaged") from None

    def _rows(self, after: int) -> Iterator[StoredRow]:
        """The rows before an error are yielded before it is raised."""
        query = "SELECT seq, at, body, hash FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        while True:
            rows, error = self._rows_until_error(query, after)
            yield from rows
            if error is not None:
                raise error
            if len(rows) < _AT_ONCE:
                return
            after = rows[-1][0]

    def _rows_until_error(self, query: str, after: int) -> tuple[list[StoredRow], Exception | None]:
        rows: list[StoredRow] = []
        try:
            rows.extend(self._connection.execute(query, (after, _AT_ONCE)))
        except (sqlite3.Error, MemoryError) as error:
            return rows, error
        return rows, None

    def _checked(self, row: StoredRow, last: TailMarker) -> tuple[JournalEntry, TailMarker]:
        seq, at, body, stored = row
        if seq != last.seq + 1:
            raise _Damaged(f"event {last.seq + 1} is missing")
        if not isinstance(at, bytes) or not isinstance(body, bytes):
            raise _Damaged(f"event {seq} is damaged: it is not text")
        linked = chain_hash(last.hash, seq, at, body)
        if stored != linked.hex().encode():
            raise _Damaged(f"event {seq} is damaged, or was changed: it does not match its hash")
        try:
            moment = checked_moment(datetime.fromisoformat(at.decode()))
            return JournalEntry(seq, moment, decode(body)), TailMarker(seq, linked)
        except (ValueError, msgspec.MsgspecError) as error:
            self.newer = True
            raise _Damaged(f"event {seq} is unknown to this ktui: {error}") from None


def format_time(moment: datetime) -> str:
    """Format a time as the journal keeps it: ISO 8601, UTC, to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _check_marker(written: TailMarker | None, last: TailMarker) -> None:
    if written is not None and written.seq == last.seq and written.hash != last.hash:
        raise _Damaged(f"event {last.seq} is not the one that was written: events were replaced")


_ROWS_AT_ONCE = 500
_PAUSED = Paused(
    by=PauseOrigin.RECOVERY,
    reason="the journal was damaged, and a pause or limits may be lost with it: "
    "check them, then continue",
)
"""Always: commands do not show what was lost, and the newest may be gone without a trace."""


def recover(path: Path, now: datetime) -> None:
    """Replace a damaged journal by an intact one; an intact journal is left as it is.

    The new one pauses the run until an operator lifts that: a pause may be among the lost events.
    At every moment the journal of that name is intact, or seen to be damaged, so a recovery can be
    repeated after a crash in its middle. Raises JournalProblem: nothing intact, newer, or a full
    disk.
    """
    try:
        ready = next(path.parent.glob(f"{path.stem}.recovered-*.db"), None) or _repaired(path, now)
        if ready is not None:
            _swap(path, ready)
    except (sqlite3.Error, OSError) as error:
        raise sqlite_problem(path, "cannot be recovered", error) from None


def _repaired(path: Path, now: datetime) -> Path | None:
    connection = connect(path, read_only=True)
    try:
        damaged = EventTable(connection, path)
        last = 0
        for entry, _ in damaged.verified():
            last = entry.seq
        if damaged.damage is None:
            return None
        _check_recoverable(path, damaged, last)
        stamp = _free_stamp(path, now)
        building = path.with_name(f"{path.stem}.recovering.db")
        _build(
            building, connection, damaged, Recovered(lost=_lost(path, damaged, last, stamp)), now
        )
    finally:
        connection.close()
    ready = path.with_name(f"{path.stem}.recovered-{stamp}.db")
    building.rename(ready)
    return ready


def _check_recoverable(path: Path, damaged: EventTable, last: int) -> None:
    if damaged.newer:
        fix = "Resume it with the ktui that wrote it, or a newer one"
        raise JournalProblem(f"{damaged.damage}. {fix}")
    if last == 0:
        raise JournalProblem(f"{path}: nothing of it can be read: {damaged.damage}")


def _free_stamp(path: Path, now: datetime) -> str:
    """A name that overwrites no damaged journal kept earlier."""
    stamp, number = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}", 1
    name = stamp
    while _kept(path, name).exists():
        number += 1
        name = f"{stamp}-{number}"
    return name


def _kept(path: Path, stamp: str) -> Path:
    return path.with_name(f"{path.stem}.damaged-{stamp}.db")


def _lost(path: Path, damaged: EventTable, last: int, stamp: str) -> str:
    behind = damaged.count_after(last)
    left = "an unknown number of events" if behind is None else f"{behind:,} stored events"
    kept = _kept(path, stamp).name
    return f"{damaged.damage}; {left} after event {last} left out; the damaged file is {kept}"


def _build(
    building: Path,
    connection: sqlite3.Connection,
    damaged: EventTable,
    recovered: Recovered,
    now: datetime,
) -> None:
    """Copy the intact rows unchanged into a new file, and append what was lost."""
    for leftover in (building, *sqlite_side_files(building)):
        leftover.unlink(missing_ok=True)
    new = create(building)
    try:
        table = EventTable(new, building)
        new.execute("BEGIN")
        rows = (row for _, row in damaged.verified())
        while some := [_as_text(row) for row in islice(rows, _ROWS_AT_ONCE)]:
            table.insert(some)
        new.executemany("INSERT INTO commands VALUES (?, ?, ?, ?, ?)", _commands(connection))
        new.execute("COMMIT")
        table.append([recovered, _PAUSED], now)
    finally:
        new.close()


def _commands(connection: sqlite3.Connection) -> list[StoredRow]:
    rows: list[StoredRow] = []
    try:
        rows.extend(map(_as_text, connection.execute("SELECT * FROM commands ORDER BY id")))
    except (sqlite3.Error, MemoryError, UnicodeDecodeError):
        return rows
    return rows


def _as_text(row: Iterable[Any]) -> StoredRow:
    return tuple(value.decode() if isinstance(value, bytes) else value for value in row)


def _swap(path: Path, ready: Path) -> None:
    """In steps that can be repeated: until replaced, the old file counts as damaged."""
    kept = _kept(path, ready.stem.removeprefix(f"{path.stem}.recovered-"))
    wal, shared_memory = sqlite_side_files(path)
    _keep(path, kept)
    _keep(wal, sqlite_side_files(kept)[0])
    connection = connect(ready, read_only=False)
    try:
        write_tail_marker(path, EventTable(connection, ready).head())
    finally:
        connection.close()
    wal.unlink(missing_ok=True)
    shared_memory.unlink(missing_ok=True)
    ready.replace(path)
    sync_folder(path.parent)


def _keep(file: Path, under: Path) -> None:
    if file.exists() and file.stat().st_size and not under.exists():
        os.link(file, under)
