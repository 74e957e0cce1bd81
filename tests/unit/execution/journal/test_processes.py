"""Processes at one journal: one writes, others read and command."""

import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution import JournalProblem
from ktui.execution.journal import file
from ktui.execution.journal.commands import Answer, Command, Continue, Pause, SetLimits
from ktui.execution.journal.journal import Journal
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


def test_nothing_is_lost_when_many_write_and_read_at_once(path: Path, clock: VirtualClock) -> None:
    def ask() -> None:
        with Journal.open(path, clock) as script:
            for _ in range(30):
                script.ask(Pause(), "ada")

    def follow() -> None:
        with Journal.open(path, clock, read_only=True) as reader:
            seen = 0
            while seen < 600:
                seen += len(list(reader.entries(after=seen)))

    with Journal.create(path, clock) as owner:
        others = [threading.Thread(target=what) for what in (ask, ask, ask, follow, follow)]
        for other in others:
            other.start()
        for _ in range(200):
            owner.append([step(0), accepted(0), over(0)])
        for other in others:
            other.join()

        assert owner.last_seq() == 600
        assert len(owner.asked()) == 90
        assert len(list(owner.entries())) == 600
        assert owner.damage is None


def test_a_writer_that_never_finishes_is_reported_and_nothing_is_half_written(
    path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_TIMEOUT_S", 0.0)
    with Journal.create(path, clock) as journal:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            JournalProblem, match=r"another process keeps the journal locked\. Try again"
        ):
            journal.append(a_start())
        other.close()

        assert journal.last_seq() == 0
        assert [entry.seq for entry in journal.append(a_start())] == [1, 2, 3]


WRITER = """
import sys
import threading
from pathlib import Path
from ktui.cluster.clock import SystemClock
from ktui.execution.journal.journal import Journal
from support.journals.journals import step
journal = Journal.open(Path(sys.argv[1]), SystemClock())
while True:
    print(journal.append([step(n) for n in range(int(sys.argv[2]))])[-1].seq, flush=True)
"""


@pytest.mark.parametrize("seed", range(12))
def test_written_events_survive_the_sudden_death_of_their_writer(
    path: Path, clock: VirtualClock, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    Journal.create(path, clock).close()
    acknowledged = 0
    for _ in range(2):
        at_once = chance.choice((1, 5, 60))
        command = [sys.executable, "-c", WRITER, str(path), str(at_once)]
        env = {"PYTHONPATH": str(Path(__file__).parents[3])}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 120)):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
            acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])

        entries, damage = read(path)

        assert damage is None, f"seed {seed}"
        assert len(entries) >= acknowledged, f"seed {seed}"
        assert (len(entries) - acknowledged) % at_once == 0, (
            f"half a transaction is in: seed {seed}"
        )


def test_a_power_cut_loses_nothing_that_was_written(tmp_path: Path, path: Path) -> None:
    events = many_events(40)
    with written(path, events):
        copy = crashed(path, tmp_path / "after")

    entries, damage = read(copy)

    assert [entry.event for entry in entries] == events
    assert damage is None


def test_a_command_is_asked_taken_and_answered_by_different_processes(
    path: Path, clock: VirtualClock
) -> None:
    with Journal.create(path, clock) as owner, Journal.open(path, clock) as script:
        number = script.ask(SetLimits({"replicas": 2, "per-broker": None}), "ada@ops1 (17)")

        (asked,) = owner.asked()
        assert asked.id == number
        assert asked.who == "ada@ops1 (17)"
        assert asked.command == SetLimits({"replicas": 2, "per-broker": None})
        assert script.answer_to(number).answer is None

        owner.answer(number, Answer(accepted=True, words="from batch 8 on", batch=8))

        assert owner.asked() == []
        assert script.answer_to(number).answer == Answer(
            accepted=True, words="from batch 8 on", batch=8
        )


def test_commands_are_taken_in_the_order_they_were_asked(path: Path, clock: VirtualClock) -> None:
    commands: list[Command] = [
        Pause(topics=("orders",), partitions=(TopicPartition("audit", 3),)),
        Continue(),
        SetLimits({}),
    ]
    with Journal.create(path, clock) as journal:
        numbers = [journal.ask(command, "ada") for command in commands]
        journal.answer(numbers[1], Answer(accepted=True, words=""))

        assert [asked.command for asked in journal.asked()] == [commands[0], commands[2]]
        assert [asked.id for asked in journal.asked(unanswered=False)] == numbers


def test_the_first_answer_to_a_command_stays(path: Path, clock: VirtualClock) -> None:
    with Journal.create(path, clock) as journal:
        number = journal.ask(Pause(), "ada")
        journal.answer(number, Answer(accepted=True, words="paused"))
        journal.answer(number, Answer(accepted=False, words="too late"))

        assert journal.answer_to(number).answer == Answer(accepted=True, words="paused")


def test_a_command_that_nobody_asked_is_reported_as_missing(
    path: Path, clock: VirtualClock
) -> None:
    with Journal.create(path, clock) as journal:
        for what in (
            lambda: journal.answer_to(9),
            lambda: journal.answer(9, Answer(accepted=True, words="")),
        ):
            with pytest.raises(JournalProblem, match="there is no command 9"):
                what()
