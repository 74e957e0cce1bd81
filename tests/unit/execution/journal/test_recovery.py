"""A run is taken up from its journal, and followed."""

import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.execution import JournalProblem
from ktui.execution.journal import tables
from ktui.execution.journal.commands import Answer, Continue, Pause
from ktui.execution.journal.file import write_tail_marker
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import (
    AnyRunEvent,
    Continued,
    JournalEntry,
    LimitsChanged,
    Paused,
    PauseOrigin,
    Recovered,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated.clock import VirtualClock
from support.journals.journals import (
    a_start,
    accepted,
    crashed,
    many_events,
    over,
    owned,
    read,
    step,
    written,
)
from support.runs.stories import Story

EVENTS = many_events(300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a journal after a power cut: part of it in the file, part in the write-ahead log."""
    with written(tmp_path / "journal.db", EVENTS[:150]) as journal:
        journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        journal.append(EVENTS[150:])
        return crashed(journal.path, tmp_path / "after")


def recovered(path: Path) -> list[AnyRunEvent]:
    with Journal.recover(path, VirtualClock()) as journal:
        events = [entry.event for entry in journal.entries()]
        assert journal.damage is None
    return events


def names(path: Path) -> set[str]:
    return {file.name for file in path.parent.iterdir()} - {"journal.db-wal", "journal.db-shm"}


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER events_stay_as_they_are")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_an_intact_journal_is_opened_as_it_is(path: Path) -> None:
    assert recovered(path) == EVENTS
    assert names(path) == {"journal.db", "journal.db-head"}


def test_a_recovery_continues_from_the_intact_part_and_reports_what_was_lost(path: Path) -> None:
    change(path, "UPDATE events SET body = '{}' WHERE seq = 120")

    events = recovered(path)

    whole, note, _ = events[:-2], *events[-2:]
    assert whole == EVENTS[:119]
    assert isinstance(note, Recovered)
    assert "event 120 is damaged" in note.lost
    assert "181 stored events after event 119 left out" in note.lost
    assert "the damaged file is journal.damaged-20260101T000000Z.db" in note.lost
    assert names(path) == {"journal.db", "journal.db-head", "journal.damaged-20260101T000000Z.db"}


def test_a_run_whose_pause_or_limits_may_be_lost_is_paused_until_continued(tmp_path: Path) -> None:
    limits = LimitsChanged(
        old=Limits(replicas=1, partitions=2), new=Limits(partitions=1), batch=1, in_flight=0
    )
    asked: list[AnyRunEvent] = [Paused(by=PauseOrigin.OPERATOR, command=1), limits]
    with written(tmp_path / "journal.db", [*a_start(), *asked]) as journal:
        path = crashed(journal.path, tmp_path / "after")
    change(path, "UPDATE events SET body = '{}' WHERE seq = 4")

    with Journal.recover(path, VirtualClock()) as journal:
        run = Run("drain").fold(journal.entries())
        assert run.limits == limits.old
        assert run.pauses.reason == (
            "the journal was damaged, and a pause or limits may be lost with it: "
            "check them, then continue"
        )
        run.fold(journal.append([Continued(by=PauseOrigin.OPERATOR)]))

    assert run.pauses.reason is None


def test_a_paused_run_does_not_continue_by_itself_after_its_journal_was_damaged(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, {"orders-0": ((1, 2, 3), (4, 2, 3)), "orders-1": ((1, 2), (1, 5))})
    story.asked(2.0, Pause())
    story.played(until_s=30.0)
    (paused,) = (e.seq for e in story.entries() if isinstance(e.event, Paused))
    change(story.path, f"UPDATE events SET body = '{{}}' WHERE seq = {paused}")  # noqa: S608 - a number
    Journal.recover(story.path, story.clock).close()
    story.folded = Run("run").fold(story.entries())
    before = len(story.steps)

    assert not story.resumed(until_s=300.0).ended
    assert len(story.steps) == before

    story.asked(310.0, Continue())
    assert story.resumed().ended
    assert story.at_target("orders-0", "orders-1")


def test_the_damaged_journal_is_kept_as_it_was_with_its_write_ahead_log(path: Path) -> None:
    log = path.with_name("journal.db-wal")
    content = bytearray(log.read_bytes())
    content[-2_000:] = bytes(2_000)
    log.write_bytes(content)
    file = path.read_bytes()

    recovered(path)

    kept = path.with_name("journal.damaged-20260101T000000Z.db")
    assert kept.read_bytes() == file
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == bytes(content)


def test_a_recovered_journal_is_a_journal_like_any_other(path: Path) -> None:
    path.with_name("journal.db-wal").unlink()

    with Journal.recover(path, VirtualClock()) as journal:
        journal.append([owned()])

    entries, damage = read(path)
    assert [entry.seq for entry in entries] == list(range(1, 154))
    assert entries[-1].event == owned()
    assert damage is None
    assert recovered(path)[-1] == owned()


def test_a_recovery_keeps_the_times_and_hashes_of_intact_events(path: Path) -> None:
    query = "SELECT seq, at, body, hash FROM events WHERE seq < 100"
    connection = sqlite3.connect(path)
    before = connection.execute(query).fetchall()
    connection.close()
    change(path, "UPDATE events SET body = '{}' WHERE seq = 100")

    recovered(path)

    connection = sqlite3.connect(path)
    assert connection.execute(query).fetchall() == before
    connection.close()


def test_a_recovery_keeps_commands_and_their_answers(path: Path) -> None:
    with Journal.open(path, VirtualClock()) as journal:
        first, second = journal.ask(Pause(), "ada"), journal.ask(Pause(topics=("orders",)), "bob")
        journal.answer(first, Answer(accepted=True, words="paused"))
    change(path, "UPDATE events SET body = '{}' WHERE seq = 100")

    with Journal.recover(path, VirtualClock()) as journal:
        assert [asked.id for asked in journal.asked()] == [second]
        assert journal.answer_to(first).answer == Answer(accepted=True, words="paused")
        assert journal.ask(Pause(), "ada") == second + 1


def test_a_second_recovery_overwrites_nothing_that_was_kept(path: Path) -> None:
    change(path, "UPDATE events SET body = '{}' WHERE seq = 120")
    recovered(path)
    change(path, "UPDATE events SET body = '{}' WHERE seq = 60")

    events = recovered(path)

    assert events[:-2] == EVENTS[:59]
    kept = {name for name in names(path) if "damaged" in name}
    assert kept == {"journal.damaged-20260101T000000Z.db", "journal.damaged-20260101T000000Z-2.db"}


@pytest.mark.parametrize(
    "content", [b"", b"text" * 1_000, bytes(40_000)], ids=["empty", "text", "zeros"]
)
def test_an_unreadable_file_is_named_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.with_name("journal.db-wal").unlink()

    with pytest.raises(JournalProblem, match=r"journal\.db: cannot be read as a journal"):
        Journal.recover(path, VirtualClock())

    assert path.read_bytes() == content


def test_a_journal_whose_first_event_is_damaged_is_named_and_left_alone(path: Path) -> None:
    change(path, "UPDATE events SET body = '{}' WHERE seq = 1")

    with pytest.raises(JournalProblem, match=r"nothing of it can be read: .*event 1 is damaged"):
        Journal.recover(path, VirtualClock())

    assert names(path) == {"journal.db", "journal.db-head"}


def test_a_journal_continued_by_a_newer_ktui_is_not_truncated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(body: bytes) -> AnyRunEvent:
        raise ValueError(f"unknown event {body.decode()[:30]}")

    monkeypatch.setattr("ktui.execution.journal.tables.decode", unknown)

    with pytest.raises(JournalProblem, match="Resume it with the ktui that wrote it"):
        Journal.recover(path, VirtualClock())

    assert names(path) == {"journal.db", "journal.db-head"}


class _PowerCut(Exception):
    pass


@pytest.mark.parametrize("moment", range(8))
def test_a_crash_during_a_recovery_loses_nothing_more(
    path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    path.with_name("journal.db-wal").unlink()
    steps = iter(range(100))

    def cut(before: object) -> object:
        def call(*args: object, **named: object) -> object:
            if next(steps) == moment:
                raise _PowerCut
            return before(*args, **named)  # type: ignore[operator]

        return call

    with monkeypatch.context() as patch:
        for name in ("unlink", "rename", "replace"):
            patch.setattr(Path, name, cut(getattr(Path, name)))
        patch.setattr(os, "link", cut(os.link))
        patch.setattr(tables, "write_tail_marker", cut(write_tail_marker))
        with pytest.raises(_PowerCut):
            Journal.recover(path, VirtualClock())
    assert read(path)[1] is not None, "it no longer says that it is damaged"

    events = recovered(path)

    assert events[:-2] == EVENTS[:150]
    assert isinstance(events[-2], Recovered)
    assert "events 151 to 300 are missing" in events[-2].lost
    assert len([name for name in names(path) if "damaged" in name]) == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_recovery_keeps_all_readable_events_whatever_was_overwritten(
    tmp_path: Path, path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    for number in range(15):
        copy = crashed(path, tmp_path / f"copy-{number}")
        file = copy.with_name(chance.choice(("journal.db", "journal.db-wal")))
        content = bytearray(file.read_bytes())
        start, length = chance.randrange(len(content)), chance.choice((1, 16, 600, 5_000))
        content[start : start + length] = chance.randbytes(len(content[start : start + length]))
        file.write_bytes(content)
        before, damage = read(copy)
        what = f"seed {seed}: {length} bytes of {file.name} from {start}"
        if not before:
            with pytest.raises(JournalProblem, match=r"journal\.db"):
                Journal.recover(copy, VirtualClock())
            continue

        events = recovered(copy)

        assert events[: len(before)] == EVENTS[: len(before)], what
        assert len(events) == len(before) + (0 if damage is None else 2), what


def test_a_journal_with_no_event_yet_is_opened_as_it_is(tmp_path: Path) -> None:
    written(tmp_path / "empty.db", []).close()

    with Journal.recover(tmp_path / "empty.db", VirtualClock()) as journal:
        journal.append(a_start())
        assert journal.last_seq() == 3


@pytest.fixture
def follower_path(tmp_path: Path) -> Path:
    (tmp_path / "drain-b3").mkdir()
    return tmp_path / "drain-b3" / "journal.db"


def test_a_followed_run_matches_its_journal_and_is_named_after_its_folder(
    follower_path: Path,
) -> None:
    with written(follower_path, a_start()), RunFollower(follower_path) as follower:
        assert [entry.seq for entry in follower.refresh()] == [1, 2, 3]
        assert follower.run.name == "drain-b3"
        assert follower.run.counts[State.QUEUED] == 3
        assert follower.damage is None


def test_a_refresh_returns_and_applies_only_new_events(follower_path: Path) -> None:
    with written(follower_path, a_start()) as journal, RunFollower(follower_path) as follower:
        follower.refresh()
        assert follower.refresh() == []
        new = journal.append([step(0), accepted(0)])

        assert follower.refresh() == new
        assert follower.run.counts[State.ADDING] == 1
        assert follower.refresh() == []

        journal.append([over(0)])
        follower.refresh()
        assert follower.run.counts[State.ADDING] == 0


def test_damage_is_reported_and_the_intact_events_remain(follower_path: Path) -> None:
    written(follower_path, many_events(30)).close()
    connection = sqlite3.connect(follower_path)
    connection.execute("DROP TRIGGER events_stay_as_they_are")
    connection.execute("UPDATE events SET body = '{}' WHERE seq = 20")
    connection.commit()
    connection.close()

    with RunFollower(follower_path) as follower:
        assert len(follower.refresh()) == 19
        assert follower.damage is not None
        assert "event 20 is damaged" in follower.damage
        assert follower.refresh() == []
        assert follower.damage is not None


def test_a_refresh_that_fails_is_repeated_the_next_time(
    follower_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(_journal: Journal, _after: int = 0) -> Iterator[JournalEntry]:
        raise JournalProblem("another process keeps the journal locked")

    with written(follower_path, a_start()), RunFollower(follower_path) as follower:
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "entries", locked)
            with pytest.raises(JournalProblem):
                follower.refresh()

        assert [entry.seq for entry in follower.refresh()] == [1, 2, 3]


def test_a_recovered_journal_can_still_be_followed(follower_path: Path) -> None:
    with written(follower_path, many_events(20)), RunFollower(follower_path) as follower:
        follower.refresh()
        connection = sqlite3.connect(follower_path)
        connection.execute("DROP TRIGGER events_stay_as_they_are")
        connection.execute("UPDATE events SET body = '{}' WHERE seq = 10")
        connection.commit()
        connection.close()
        with Journal.recover(follower_path, VirtualClock()) as recovered:
            recovered.append([step(7)])

        new = follower.refresh()

        assert [entry.seq for entry in new] == [10, 11, 12]
        assert isinstance(new[0].event, Recovered)
        assert follower.run.seq == 12
        assert follower.damage is None


def test_an_event_of_a_partition_outside_the_run_is_reported_as_damage(follower_path: Path) -> None:
    with written(follower_path, [*a_start(), step(9)]), RunFollower(follower_path) as follower:
        assert len(follower.refresh()) == 3
        assert follower.damage is not None
        assert "event 4 names a partition not in the run" in follower.damage


def test_a_missing_journal_is_reported(follower_path: Path) -> None:
    with pytest.raises(JournalProblem, match="No such file"):
        RunFollower(follower_path)
