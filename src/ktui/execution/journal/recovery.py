"""Recover a damaged journal: go on with its intact events, and keep the damaged file beside it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from ktui.durable import sync_folder
from ktui.execution.errors import JournalProblem
from ktui.execution.journal.file import (
    connect,
    create,
    sqlite_problem,
    sqlite_side_files,
    write_tail_marker,
)
from ktui.execution.journal.tables import EventTable, StoredRow
from ktui.execution.run.events import Paused, PauseOrigin, Recovered

_ROWS_AT_ONCE = 500
_PAUSED = Paused(
    by=PauseOrigin.RECOVERY,
    reason="the journal was damaged, and a pause or limits may be lost with it: "
    "check them, then continue",
)
"""Always pause. The commands do not show what was lost: the newest may be gone without a trace."""


def recover(path: Path, now: datetime) -> None:
    """Replace a damaged journal by an intact one; an intact journal is left as it is.

    The new journal pauses the run until an operator lifts that. A pause may be among the lost
    events, and a run that an operator has paused must not go on by itself.

    At every moment there is a journal under its name that is either intact or seen to be damaged.
    So a recovery can be repeated after a crash in the middle of it.

    Raises:
        JournalProblem: not one event can be read, a newer ktui wrote the journal, or the disk is
            full.
    """
    try:
        ready = next(path.parent.glob(f"{path.stem}.recovered-*.db"), None) or _repaired(path, now)
        if ready is not None:
            _swap(path, ready)
    except (sqlite3.Error, OSError) as error:
        raise sqlite_problem(path, "cannot be recovered", error) from None


def _repaired(path: Path, now: datetime) -> Path | None:
    """Write the intact events into a new file; return None if the journal is not damaged."""
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
    """Format the time as a name that overwrites no damaged journal kept earlier."""
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
    """Return the commands as far as they can be read: no state depends on them."""
    rows: list[StoredRow] = []
    try:
        rows.extend(map(_as_text, connection.execute("SELECT * FROM commands ORDER BY id")))
    except (sqlite3.Error, MemoryError, UnicodeDecodeError):
        return rows
    return rows


def _as_text(row: Iterable[Any]) -> StoredRow:
    return tuple(value.decode() if isinstance(value, bytes) else value for value in row)


def _swap(path: Path, ready: Path) -> None:
    """Put the new file in the old one's place, in steps that can be repeated.

    Once the new file's last event is noted, the old file is seen to be damaged until it is
    replaced.
    """
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
