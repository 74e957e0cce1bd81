"""The journal: what is written is there for good, in order, and everybody can read it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ktui.execution.errors import JournalProblem
from ktui.execution.journal.commands import Pause
from ktui.execution.journal.file import tail_marker_path
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import EngineLeft
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, accepted, over, read, step


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
from ktui.execution.errors import JournalProblem
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
    with (
        Journal.create(path, clock) as owner,
        Journal.open(path, clock, read_only=True) as reader,
    ):
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
    with (
        Journal.create(path, clock) as owner,
        Journal.open(path, clock) as script,
    ):
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
