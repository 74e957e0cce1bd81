"""A damaged journal yields its intact beginning and reports what is damaged and where."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from ktui.execution.run.events import AnyRunEvent, JournalEntry
from support.journals.journals import crashed, many_events, read, written

EVENTS = many_events(400)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a journal after a power cut: part of it in the file, part in the write-ahead log."""
    with written(tmp_path / "journal.db", EVENTS[:250]) as journal:
        journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for event in EVENTS[250:]:
            journal.append([event])
        return crashed(journal.path, tmp_path / "after")


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """Return a closed journal: all of it is in the file."""
    written(tmp_path / "journal.db", EVENTS).close()
    return tmp_path / "journal.db"


def bodies(entries: list[JournalEntry]) -> list[AnyRunEvent]:
    return [entry.event for entry in entries]


def tampered(path: Path, statement: str) -> None:
    """Change a journal as someone who knows SQLite and means harm would."""
    connection = sqlite3.connect(path)
    for trigger in ("events_without_gaps", "events_stay", "events_stay_as_they_are"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "whole", "words"),
    [
        (
            "UPDATE events SET body = replace(body, 'orders', 'audit') WHERE seq = 50",
            49,
            "event 50 is dam",
        ),
        ("UPDATE events SET at = '2026-01-01T00:00:01.000000Z' WHERE seq = 50", 49, "event 50 is"),
        ("UPDATE events SET hash = upper(hash) WHERE seq = 50", 49, "event 50 is damaged"),
        ("UPDATE events SET body = 17 WHERE seq = 50", 49, "event 50 is damaged"),
        ("UPDATE events SET body = NULL WHERE seq = 50", 49, "event 50 is damaged"),
        ("DELETE FROM events WHERE seq BETWEEN 20 AND 30", 19, "event 20 is missing"),
        ("DELETE FROM events WHERE seq = 1", 0, "event 1 is missing"),
        ("DELETE FROM events WHERE seq > 300", 300, "events 301 to 400 are missing"),
        ("DELETE FROM events", 0, "events 1 to 400 are missing"),
        ("UPDATE events SET seq = seq + 1000 WHERE seq > 60", 60, "event 61 is missing"),
    ],
)
def test_a_change_by_hand_is_found_and_named(
    closed: Path, statement: str, whole: int, words: str
) -> None:
    if "NULL" in statement:
        tampered(closed, "ALTER TABLE events RENAME TO old")
        connection = sqlite3.connect(closed)
        connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, at, body, hash)")
        connection.execute("INSERT INTO events SELECT * FROM old")
        connection.execute(statement)
        connection.commit()
        connection.close()
    else:
        tampered(closed, statement)

    entries, damage = read(closed)

    assert bodies(entries) == EVENTS[:whole]
    assert damage is not None
    assert str(closed) in damage
    assert words in damage


def test_events_replaced_with_matching_hashes_are_found(tmp_path: Path, closed: Path) -> None:
    (tmp_path / "other").mkdir()
    written(tmp_path / "other" / "journal.db", many_events(401)[1:]).close()
    (tmp_path / "other" / "journal.db").replace(closed)

    _, damage = read(closed)

    assert damage is not None
    assert "event 400 is not the one that was written" in damage


def test_events_of_a_newer_ktui_are_reported_as_unknown(closed: Path) -> None:
    from ktui.execution.journal.tables import chain_hash  # noqa: PLC0415

    connection = sqlite3.connect(closed)
    (last,) = connection.execute("SELECT hash FROM events WHERE seq = 400").fetchone()
    at, body = "2027-01-01T00:00:00.000000Z", '{"event":"teleported"}'
    hashed = chain_hash(bytes.fromhex(last), 401, at.encode(), body.encode()).hex()
    connection.execute("INSERT INTO events VALUES (401, ?, ?, ?)", (at, body, hashed))
    connection.commit()
    connection.close()

    entries, damage = read(closed)

    assert bodies(entries) == EVENTS
    assert damage is not None
    assert "event 401 is unknown to this ktui" in damage
    assert "teleported" in damage


def test_a_lost_write_ahead_log_is_reported(path: Path) -> None:
    path.with_name("journal.db-wal").unlink()

    entries, damage = read(path)

    assert bodies(entries) == EVENTS[: len(entries)]
    assert len(entries) == 250
    assert damage is not None
    assert "events 251 to 400 are missing" in damage


def test_a_page_garbled_by_the_disk_costs_the_events_from_there_on(closed: Path) -> None:
    content = bytearray(closed.read_bytes())
    start = content.index(b'"batch":50') // 4096 * 4096
    content[start : start + 4096] = bytes(4096)
    closed.write_bytes(content)

    entries, damage = read(closed)

    assert bodies(entries) == EVENTS[: len(entries)]
    assert 100 < len(entries) < 160
    assert damage is not None
    assert f"after event {len(entries)}" in damage


def a_prefix_or_a_refusal(path: Path, what: str) -> int:
    """Check that only the beginning of the journal is read, and the rest reported as missing."""
    entries, damage = read(path)
    assert bodies(entries) == EVENTS[: len(entries)], what
    if len(entries) < len(EVENTS):
        assert damage is not None, what
        assert "journal.db" in damage, what
    return len(entries)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("seed", range(4))
def test_a_file_cut_off_anywhere_still_yields_its_beginning(
    path: Path, suffix: str, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    file = path.with_name(f"journal.db{suffix}")
    content = file.read_bytes()
    lengths = set()
    for _ in range(40):
        length = chance.randrange(len(content))
        file.write_bytes(content[:length])
        lengths.add(a_prefix_or_a_refusal(path, f"seed {seed}: {file.name} cut at {length}"))
        path.with_name("journal.db-shm").unlink(missing_ok=True)

    assert len(lengths) > 1


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("seed", range(4))
def test_the_events_before_any_overwritten_bytes_can_still_be_read(
    path: Path, suffix: str, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    file = path.with_name(f"journal.db{suffix}")
    content = file.read_bytes()
    lengths = set()
    for _ in range(60):
        garbled = bytearray(content)
        start, length = chance.randrange(len(content)), chance.choice((1, 1, 16, 600, 5_000))
        garbled[start : start + length] = chance.randbytes(len(garbled[start : start + length]))
        file.write_bytes(garbled)
        lengths.add(a_prefix_or_a_refusal(path, f"seed {seed}: {length} bytes from {start}"))
        path.with_name("journal.db-shm").unlink(missing_ok=True)

    assert len(lengths) > 5
