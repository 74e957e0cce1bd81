"""The commands in a journal's file: written by any process, answered by the run's owner."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ktui.execution.errors import JournalProblem
from ktui.execution.journal.commands import Answer, Command, StoredCommand
from ktui.execution.journal.event_table import format_time
from ktui.json_input import checked_moment, decode_untrusted, unknown_field

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
        """Write a command, and return its number."""
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
