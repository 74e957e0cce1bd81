"""A journal that another process keeps locked: its owner waits, others get an error."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ktui.execution import JournalProblem
from ktui.execution.journal import file
from ktui.execution.journal import journal as journals
from ktui.execution.journal.commands import Answer, Pause
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, read, step, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(autouse=True)
def short_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "OWNERS_TRY_S", 0.001)
    monkeypatch.setattr(journals, "_PAUSE_S", 0.0)
    monkeypatch.setattr(file, "BUSY_TIMEOUT_S", 0.0)


class NotedWait:
    """A patience that notes an owner's wait; `on_wait` is called when it begins."""

    def __init__(self, on_wait: Callable[[], object]) -> None:
        self.words: list[str] = []
        self._on_wait = on_wait

    def begins(self, why: str) -> None:
        self.words.append(why)
        self._on_wait()

    def waits(self) -> None: ...

    def ends(self, waited_s: float) -> None:
        self.words.append(f"free after {waited_s:.0f} s")


@contextmanager
def another_process(path: Path) -> Iterator[threading.Event]:
    """Keep a journal locked by another connection, until the event is set."""
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        held.set()
        free.wait()
        other.execute("ROLLBACK")
        other.close()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        yield free
    finally:
        free.set()
        holder.join()


def ask(journal: Journal) -> object:
    return journal.ask(Pause(), "ada")


USES: dict[str, Callable[[Journal], object]] = {
    "append": lambda journal: journal.append([step(0)]),
    "answer": lambda journal: journal.answer(1, Answer(accepted=True, words="paused")),
    "ask": ask,
}


@pytest.mark.parametrize("use", USES)
def test_the_owner_waits_while_another_process_has_the_journal_locked(
    path: Path, clock: VirtualClock, use: str
) -> None:
    with written(path, a_start()) as journal:
        ask(journal)
    with another_process(path) as free:
        noted = NotedWait(free.set)
        with Journal.open(path, clock, patience=noted) as owner:
            USES[use](owner)

            assert len(noted.words) == 2
            assert noted.words[0] == f"{path}: another process keeps the journal locked"
            assert noted.words[1] == "free after 0 s"
            assert owner.last_seq() == (4 if use == "append" else 3)
            assert (owner.answer_to(1).answer is not None) == (use == "answer")
    assert read(path)[1] is None


def test_the_owner_waits_for_reads_too(
    path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with written(path, a_start()) as journal:
        ask(journal)
    execute, left = file._Connection.execute, [1, 2, 3]

    def locked_at_first(of: file._Connection, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        if "FROM commands" in sql and left:
            busy = sqlite3.OperationalError("database is locked")
            busy.sqlite_errorcode = sqlite3.SQLITE_BUSY_RECOVERY
            left.pop()
            raise busy
        return execute(of, sql, values)

    monkeypatch.setattr(file._Connection, "execute", locked_at_first)
    noted = NotedWait(lambda: None)
    with Journal.open(path, clock, patience=noted) as owner:
        assert [each.command for each in owner.asked()] == [Pause()]
    assert len(noted.words) == 2


def test_an_event_written_after_a_wait_has_the_time_of_the_write(
    path: Path, clock: VirtualClock
) -> None:
    written(path, a_start()).close()
    with another_process(path) as free:

        def later() -> None:
            clock.pass_time(90.0)
            free.set()

        noted = NotedWait(later)
        with Journal.open(path, clock, patience=noted) as owner:
            (entry,) = owner.append([step(0)])

    assert entry.at == clock.now()
    assert noted.words[1] == "free after 90 s"


def test_a_wait_that_is_given_up_leaves_nothing_half_written(
    path: Path, clock: VirtualClock
) -> None:
    class GivesUp(NotedWait):
        def waits(self) -> None:
            raise JournalProblem("its process got SIGTERM")

    written(path, a_start()).close()
    with (
        another_process(path) as free,
        Journal.open(path, clock, patience=GivesUp(lambda: None)) as owner,
    ):
        with pytest.raises(JournalProblem, match="SIGTERM"):
            owner.append([step(0)])
        free.set()

        assert owner.last_seq() == 3


def test_a_command_to_a_locked_journal_fails_with_advice_to_try_again(
    path: Path, clock: VirtualClock
) -> None:
    with written(path, a_start()), another_process(path), Journal.open(path, clock) as script:
        with pytest.raises(JournalProblem, match="another process keeps the journal locked") as no:
            script.ask(Pause(), "ada")

        assert "Try again" in str(no.value)
        assert script.asked() == []


def test_following_a_run_misses_nothing_while_another_process_writes(path: Path) -> None:
    with written(path, a_start()) as owner, RunFollower(path) as follower:
        with another_process(path):
            assert len(follower.refresh()) == 3
        owner.append([step(0)])

        assert [entry.seq for entry in follower.refresh()] == [4]
