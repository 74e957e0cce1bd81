"""Commands in the journal: asked by any process, taken and answered by the run's owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import JournalProblem
from ktui.execution.journal.commands import Answer, Command, Continue, Pause, SetLimits
from ktui.execution.journal.journal import Journal
from ktui.simulated.clock import VirtualClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


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
