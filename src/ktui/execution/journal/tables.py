"""The tables of a journal's file: events, trusted as far as their hashes match, and commands."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ktui.execution.errors import JournalProblem
from ktui.execution.journal.commands import Answer, Command, StoredCommand
from ktui.execution.journal.file import TailMarker, is_damage, read_tail_marker, sqlite_problem
from ktui.execution.run.events import AnyRunEvent, JournalEntry, decode, encode
from ktui.json_text import checked_moment, decode_untrusted, unknown_field

GENESIS = bytes(32)
"""The hash before the first event."""
_AT_ONCE = 500
"""Rows of one read. Reads are short, so that no reader keeps the write-ahead log from a reset."""
StoredRow = tuple[Any, ...]
"""seq, at, body and hash as stored; in a damaged file they may have any type."""


def chain_hash(previous: bytes, seq: int, at: bytes, body: bytes) -> bytes:
    """Return the hash of an event: SHA-256 over the hash before it, its number, time and body.

    Args:
        previous: the hash of the event before it, 32 bytes.
        seq: the event's number.
        at: the event's time as stored, without a line break.
        body: the event's JSON as stored.
    """
    return hashlib.sha256(b"%b%d\n%b\n%b" % (previous, seq, at, body)).digest()


class _Damaged(Exception):
    """The next event is damaged or missing; the message says how and where."""


class EventTable:
    """The events of one file, through one connection."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._verified = TailMarker(0, GENESIS)
        self.written = TailMarker(0, GENESIS)
        """The last event that this connection has written."""
        self.damage: str | None = None
        """The damage that ended the last `verified`, and where; None without any."""
        self.newer = False
        """Whether that was an intact event of a kind that only a newer ktui knows."""

    def append(self, events: Sequence[AnyRunEvent], now: datetime) -> list[JournalEntry]:
        """Write events in one transaction; they are on the disk when this returns.

        Raises:
            JournalProblem: the last stored event is damaged; no event was written.
            sqlite3.Error: the write has failed; no event was written.
        """
        return self.append_timed([(now, event) for event in events])

    def append_timed(self, events: Sequence[tuple[datetime, AnyRunEvent]]) -> list[JournalEntry]:
        """Write events in one transaction, each with its own time.

        Raises:
            JournalProblem: the last stored event is damaged; no event was written.
            sqlite3.Error: the write has failed; no event was written.
        """
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
        """Return the number of the last event, damaged or not; 0 if there is none."""
        (seq,) = self._connection.execute("SELECT ifnull(max(seq), 0) FROM events").fetchone()
        return int(seq)

    def head(self) -> TailMarker:
        """Return the last event's number and hash as stored.

        Raises:
            JournalProblem: the stored hash is damaged.
        """
        return self._stored(self.last_seq())

    def count_after(self, seq: int) -> int | None:
        """Count the events after `seq`, damaged or not; None if the file cannot be read."""
        try:
            query = "SELECT count(*) FROM events WHERE seq > ?"
            (count,) = self._connection.execute(query, (seq,)).fetchone()
        except sqlite3.Error:
            return None
        return int(count)

    def verified(self, after: int = 0) -> Iterator[tuple[JournalEntry, StoredRow]]:
        """Iterate over the intact events after `after` with their rows; then set `damage`.

        Raises:
            JournalProblem: the file cannot be read for another reason than damage.
        """
        self.damage, self.newer = None, False
        written = read_tail_marker(self._path)
        try:
            last = self._verified if after == self._verified.seq else self._stored(after)
            for row in self._rows(after):
                entry, last = self._checked(row, last)
                _check_marker(written, last)
                self._verified = last
                yield entry, row
            _check_end(written, last)
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
        """Read in short reads; the rows before an error are yielded before it is raised."""
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


def _check_end(written: TailMarker | None, last: TailMarker) -> None:
    """Check that no event is missing after the last one that was read."""
    if written is not None and last.seq < written.seq:
        raise _Damaged(f"events {last.seq + 1} to {written.seq} are missing")


def _check_marker(written: TailMarker | None, last: TailMarker) -> None:
    """Check that the event noted as the last one is still the same."""
    if written is not None and written.seq == last.seq and written.hash != last.hash:
        raise _Damaged(f"event {last.seq} is not the one that was written: events were replaced")


_ENCODER = msgspec.json.Encoder()
_COMMANDS = msgspec.json.Decoder(Command)
_ANSWERS = msgspec.json.Decoder(Answer)
_SELECT = "SELECT id, at, who, body, answer FROM commands"


class CommandTable:
    """The commands of one file, through one connection."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def ask(self, command: Command, who: str, now: datetime) -> int:
        row = (format_time(now), who, _ENCODER.encode(command).decode())
        insert = "INSERT INTO commands (at, who, body) VALUES (?, ?, ?)"
        return int(self._connection.execute(insert, row).lastrowid or 0)

    def asked(self, *, unanswered: bool) -> list[StoredCommand]:
        """Return the commands, or those without an answer, in the order in which they were asked.

        Raises:
            JournalProblem: a command cannot be read.
        """
        where = " WHERE answer IS NULL" if unanswered else ""
        rows = self._connection.execute(f"{_SELECT}{where} ORDER BY id").fetchall()
        return [self._decoded(row) for row in rows]

    def answer(self, number: int, answer: Answer) -> None:
        """Write the answer to a command; its first answer stays.

        Raises:
            JournalProblem: there is no such command, or the command cannot be read.
        """
        self.answer_to(number)
        update = "UPDATE commands SET answer = ? WHERE id = ? AND answer IS NULL"
        self._connection.execute(update, (_ENCODER.encode(answer).decode(), number))

    def answer_to(self, number: int) -> StoredCommand:
        """Return a command with its answer, if there is one.

        Raises:
            JournalProblem: there is no such command, or the command cannot be read.
        """
        row = self._connection.execute(f"{_SELECT} WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise JournalProblem(f"{self._path}: there is no command {number}")
        return self._decoded(row)

    def _decoded(self, row: tuple[Any, ...]) -> StoredCommand:
        number, at, who, body, answer = row
        try:
            command, unknown = _command(body)
            return StoredCommand(
                number,
                checked_moment(datetime.fromisoformat(at.decode())),
                who.decode(),
                command,
                None if answer is None else decode_untrusted(_ANSWERS, answer),
                unknown,
            )
        except (ValueError, AttributeError, TypeError, msgspec.MsgspecError) as error:
            words = f"{self._path}: command {number} cannot be read: {error}"
            raise JournalProblem(words) from None


def _command(body: bytes) -> tuple[Command | None, str]:
    """Return a command, or the part that this ktui cannot read: no command is done in part."""
    try:
        command: Command = decode_untrusted(_COMMANDS, body)
    except msgspec.DecodeError as error:  # the engine refuses it, and takes the next one
        return None, f"this command: {error}"
    if _ENCODER.encode(command) == body:  # the quick way, for an extra plan may be long
        return command, ""
    field = unknown_field(body, command)
    return (command, "") if field is None else (None, f"`{field}` of this command")
