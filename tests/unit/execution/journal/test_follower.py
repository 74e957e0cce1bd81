"""Following a run of another process: always up to date, at the cost of the new events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.execution.errors import JournalProblem
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import JournalEntry, Recovered
from ktui.execution.run.states import State
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, accepted, many_events, over, step, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "drain-b3").mkdir()
    return tmp_path / "drain-b3" / "journal.db"


def test_a_followed_run_matches_its_journal_and_is_named_after_its_folder(path: Path) -> None:
    with written(path, a_start()), RunFollower(path) as follower:
        assert [entry.seq for entry in follower.refresh()] == [1, 2, 3]
        assert follower.run.name == "drain-b3"
        assert follower.run.counts[State.QUEUED] == 3
        assert follower.damage is None


def test_a_refresh_returns_and_applies_only_new_events(path: Path) -> None:
    with written(path, a_start()) as journal, RunFollower(path) as follower:
        follower.refresh()
        assert follower.refresh() == []
        new = journal.append([step(0), accepted(0)])

        assert follower.refresh() == new
        assert follower.run.counts[State.ADDING] == 1
        assert follower.refresh() == []

        journal.append([over(0)])
        follower.refresh()
        assert follower.run.counts[State.ADDING] == 0


def test_damage_is_reported_and_the_intact_events_remain(path: Path) -> None:
    written(path, many_events(30)).close()
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER events_stay_as_they_are")
    connection.execute("UPDATE events SET body = '{}' WHERE seq = 20")
    connection.commit()
    connection.close()

    with RunFollower(path) as follower:
        assert len(follower.refresh()) == 19
        assert follower.damage is not None
        assert "event 20 is damaged" in follower.damage
        assert follower.refresh() == []
        assert follower.damage is not None


def test_a_refresh_that_fails_is_repeated_the_next_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(_journal: Journal, _after: int = 0) -> Iterator[JournalEntry]:
        raise JournalProblem("another process keeps the journal locked")

    with written(path, a_start()), RunFollower(path) as follower:
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "entries", locked)
            with pytest.raises(JournalProblem):
                follower.refresh()

        assert [entry.seq for entry in follower.refresh()] == [1, 2, 3]


def test_a_recovered_journal_can_still_be_followed(path: Path) -> None:
    with written(path, many_events(20)), RunFollower(path) as follower:
        follower.refresh()
        connection = sqlite3.connect(path)
        connection.execute("DROP TRIGGER events_stay_as_they_are")
        connection.execute("UPDATE events SET body = '{}' WHERE seq = 10")
        connection.commit()
        connection.close()
        with Journal.recover(path, VirtualClock()) as recovered:
            recovered.append([step(7)])

        new = follower.refresh()

        assert [entry.seq for entry in new] == [10, 11, 12]
        assert isinstance(new[0].event, Recovered)
        assert follower.run.seq == 12
        assert follower.damage is None


def test_an_event_of_a_partition_outside_the_run_is_reported_as_damage(path: Path) -> None:
    with written(path, [*a_start(), step(9)]), RunFollower(path) as follower:
        assert len(follower.refresh()) == 3
        assert follower.damage is not None
        assert "event 4 names a partition not in the run" in follower.damage


def test_a_missing_journal_is_reported(path: Path) -> None:
    with pytest.raises(JournalProblem, match="No such file"):
        RunFollower(path)
