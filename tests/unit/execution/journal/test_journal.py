"""The journal: each event is written whole, read back, and damage is told."""

import hashlib
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ktui.execution import JournalProblem
from ktui.execution.journal.commands import Pause
from ktui.execution.journal.file import tail_marker_path
from ktui.execution.journal.journal import Journal
from ktui.execution.journal.tables import GENESIS, chain_hash
from ktui.execution.run.events import AnyRunEvent, EngineLeft, JournalEntry
from ktui.simulated.clock import VirtualClock
from support.journals.journals import (
    a_start,
    accepted,
    crashed,
    many_events,
    over,
    read,
    step,
    written,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_events_come_back_as_they_were_written_numbered_from_one(
    path: Path, clock: VirtualClock
) -> None:
    events = [*a_start(), step(0), accepted(0), over(0)]
    with Journal.create(path, clock) as journal:
        first = journal.append(events[:2])
        clock.pass_time(1.25)
        rest = journal.append(events[2:])

    entries, damage = read(path)

    assert entries == [*first, *rest]
    assert [entry.event for entry in entries] == events
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert (entries[2].at - entries[1].at).total_seconds() == 1.25
    assert damage is None


def test_only_entries_after_a_given_one_can_be_requested(path: Path, clock: VirtualClock) -> None:
    with Journal.create(path, clock) as journal:
        journal.append(a_start())
        journal.append([step(0)])

        assert [entry.seq for entry in journal.entries(after=3)] == [4]
        assert list(journal.entries(after=4)) == []
        assert journal.last_seq() == 4
        assert journal.damage is None


def test_a_pipe_in_place_of_the_tail_marker_keeps_nobody_waiting(
    path: Path, clock: VirtualClock
) -> None:
    with Journal.create(path, clock) as journal:
        os.mkfifo(tail_marker_path(path))
        written = journal.append(a_start())

    assert read(path) == (written, None)


def test_an_empty_append_leaves_the_journal_empty(path: Path, clock: VirtualClock) -> None:
    with Journal.create(path, clock) as journal:
        assert journal.append([]) == []
        assert journal.last_seq() == 0
        assert list(journal.entries()) == []
        assert journal.damage is None


def test_an_existing_journal_is_never_overwritten(path: Path, clock: VirtualClock) -> None:
    with Journal.create(path, clock) as journal:
        journal.append(a_start())

    with pytest.raises(JournalProblem, match=r"journal\.db: there is a journal already"):
        Journal.create(path, clock)

    assert len(read(path)[0]) == 3


def test_opening_a_missing_journal_creates_no_file(path: Path, clock: VirtualClock) -> None:
    with pytest.raises(JournalProblem, match="No such file or directory"):
        Journal.open(path, clock)

    assert list(path.parent.iterdir()) == []


def test_only_its_owner_may_read_a_journal(path: Path, clock: VirtualClock) -> None:
    with Journal.create(path, clock) as journal:
        journal.append(a_start())

        assert {file.stat().st_mode & 0o077 for file in path.parent.iterdir()} == {0}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = '{}' WHERE seq = 2",
        "DELETE FROM events WHERE seq = 2",
        "INSERT INTO events VALUES (7, '', '', '')",
        "INSERT OR REPLACE INTO events VALUES (2, '', '', '')",
    ],
)
def test_sqlite_itself_refuses_to_change_written_events(
    path: Path, clock: VirtualClock, statement: str
) -> None:
    with Journal.create(path, clock) as journal:
        journal.append(a_start())

    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match=r"never|without gaps"):
        connection.execute(statement)
    connection.close()

    assert read(path)[1] is None


def test_a_journal_of_a_newer_ktui_is_refused_with_its_version(
    path: Path, clock: VirtualClock
) -> None:
    Journal.create(path, clock).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '2'")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()

    with pytest.raises(JournalProblem, match="a journal of version 2; this ktui reads version 1"):
        Journal.open(path, clock)


@pytest.mark.parametrize("content", [b"", b"text" * 1_000], ids=["empty", "text"])
def test_a_file_that_is_not_a_journal_is_named(
    path: Path, clock: VirtualClock, content: bytes
) -> None:
    path.write_bytes(content)

    with pytest.raises(JournalProblem, match=r"journal\.db: cannot be read as a journal"):
        Journal.open(path, clock)


def test_a_full_disk_is_reported_and_its_transaction_leaves_nothing(
    path: Path, clock: VirtualClock
) -> None:
    with Journal.create(path, clock) as journal:
        journal.append(a_start())
        journal._connection.execute("PRAGMA max_page_count = 12")
        with pytest.raises(
            JournalProblem, match=r"cannot be written: the disk is full\. Make room"
        ):
            journal.append([step(n) for n in range(1_000)])

        assert journal.last_seq() == 3
        journal.append([EngineLeft(reason="the disk is full")])

    entries, damage = read(path)
    assert [entry.seq for entry in entries] == [1, 2, 3, 4]
    assert damage is None


def test_a_file_that_may_not_grow_is_reported_and_written_events_stay(path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from ktui.cluster.clock import SystemClock
from ktui.execution.journal.journal import Journal
from ktui.execution.journal.file import tail_marker_path
from ktui.execution import JournalProblem
from support.journals.journals import a_start, step
journal = Journal.create(Path(sys.argv[1]), SystemClock())
journal.append(a_start())
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
try:
    while True:
        journal.append([step(n) for n in range(100)])
except JournalProblem as problem:
    print(problem)
last = journal.last_seq()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
journal.append([step(0)])
print(last, journal.last_seq())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip

    problem, figures = done.stdout.splitlines()
    before, after = map(int, figures.split())
    assert "journal.db: cannot be written: the disk reports an error" in problem
    assert before % 100 == 3
    assert after == before + 1
    entries, damage = read(path)
    assert (len(entries), damage) == (after, None)


def test_readers_see_appended_events_at_once_and_block_nobody(
    path: Path, clock: VirtualClock
) -> None:
    with Journal.create(path, clock) as owner, Journal.open(path, clock, read_only=True) as reader:
        owner.append(a_start())
        entries = reader.entries()
        first = next(entries)
        owner.append([step(n) for n in range(2_000)])

        assert first.seq == 1
        assert len(list(entries)) == 2
        assert len(list(reader.entries(after=3))) == 2_000


def test_the_data_version_shows_that_another_process_wrote_something(
    path: Path, clock: VirtualClock
) -> None:
    with Journal.create(path, clock) as owner, Journal.open(path, clock) as script:
        before = owner.data_version()
        assert owner.data_version() == before

        script.ask(Pause(), "ada@ops1 (17)")

        assert owner.data_version() != before


def test_a_read_only_journal_refuses_writes(path: Path, clock: VirtualClock) -> None:
    Journal.create(path, clock).close()

    with (
        Journal.open(path, clock, read_only=True) as reader,
        pytest.raises(JournalProblem, match="it is read-only"),
    ):
        reader.append(a_start())


EVENTS = many_events(400)


@pytest.fixture
def damage_path(tmp_path: Path) -> Path:
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


def test_a_lost_write_ahead_log_is_reported(damage_path: Path) -> None:
    damage_path.with_name("journal.db-wal").unlink()

    entries, damage = read(damage_path)

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
    damage_path: Path, suffix: str, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    file = damage_path.with_name(f"journal.db{suffix}")
    content = file.read_bytes()
    lengths = set()
    for _ in range(40):
        length = chance.randrange(len(content))
        file.write_bytes(content[:length])
        lengths.add(a_prefix_or_a_refusal(damage_path, f"seed {seed}: {file.name} cut at {length}"))
        damage_path.with_name("journal.db-shm").unlink(missing_ok=True)

    assert len(lengths) > 1


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("seed", range(4))
def test_the_events_before_any_overwritten_bytes_can_still_be_read(
    damage_path: Path, suffix: str, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    file = damage_path.with_name(f"journal.db{suffix}")
    content = file.read_bytes()
    lengths = set()
    for _ in range(60):
        garbled = bytearray(content)
        start, length = chance.randrange(len(content)), chance.choice((1, 1, 16, 600, 5_000))
        garbled[start : start + length] = chance.randbytes(len(garbled[start : start + length]))
        file.write_bytes(garbled)
        lengths.add(a_prefix_or_a_refusal(damage_path, f"seed {seed}: {length} bytes from {start}"))
        damage_path.with_name("journal.db-shm").unlink(missing_ok=True)

    assert len(lengths) > 5


def test_a_hash_is_sha256_over_the_previous_hash_the_number_the_time_and_the_body() -> None:
    expected = hashlib.sha256(GENESIS + b"1\n2026-01-01T00:00:00.000000Z\n{}").digest()

    assert chain_hash(GENESIS, 1, b"2026-01-01T00:00:00.000000Z", b"{}") == expected


def test_the_hash_differs_with_every_part_of_an_event() -> None:
    hashes = {
        chain_hash(GENESIS, 1, b"10:00", b"{}"),
        chain_hash(b"\1" * 32, 1, b"10:00", b"{}"),
        chain_hash(GENESIS, 2, b"10:00", b"{}"),
        chain_hash(GENESIS, 1, b"10:01", b"{}"),
        chain_hash(GENESIS, 1, b"10:00", b"[]"),
    }

    assert len(hashes) == 5
