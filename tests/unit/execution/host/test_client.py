"""What any process may learn about a run, and ask of its engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import UnknownRun
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Answer, Command, Pause
from ktui.execution.journal.journal import Journal
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, ended, written


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def client(state: StateDir) -> RunClient:
    written(state.create_run("drain").journal, a_start(4)).close()
    return RunClient.find(state, "drain")


def test_a_run_is_found_by_its_name_and_read_from_its_journal(client: RunClient) -> None:
    found, begun = client.read(), client.read_begun()

    assert (client.name, len(found.run.tracks), found.damage) == ("drain", 4, None)
    assert begun.begun == found.run.started
    assert client.first_entry() == found.entries[0]
    with pytest.raises(UnknownRun, match="did you mean 'drain'"):
        RunClient.find(StateDir(client.folder.path.parent.parent), "drains")


def test_a_run_whose_start_was_cut_off_cannot_be_continued(state: StateDir) -> None:
    run = state.create_run("cut")
    Journal.create(run.journal, VirtualClock()).close()

    with pytest.raises(RunProblem, match="the start of the run was cut off"):
        RunClient(run).read_begun()


def test_only_a_run_with_an_engine_takes_commands(client: RunClient) -> None:
    with pytest.raises(RunRefused, match="run drain has no engine"):
        client.read_live()

    with own_run(client.folder) as owned:
        assert client.owner == owned.holder
        assert client.read_live().name == "drain"

    with Journal.open(client.folder.journal, VirtualClock()) as journal:
        journal.append([ended(4)])
    with pytest.raises(RunRefused, match="run drain has ended"):
        client.read_live()


def test_a_command_is_kept_until_it_is_answered(client: RunClient) -> None:
    number = client.ask(Pause())

    assert client.unanswered() == [Pause()]
    with Journal.open(client.folder.journal, VirtualClock()) as journal:
        journal.answer(number, Answer(accepted=True, words="paused"))
    assert client.unanswered() == []
    assert client.wait_for_answer(number).words == "paused"


def test_a_command_is_sent_and_its_answer_read_over_one_opened_journal(
    client: RunClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, opened = Journal.ask, list[Journal]()

    def answered(journal: Journal, command: Command, who: str) -> int:
        opened.append(journal)
        number = ask(journal, command, who)
        journal.answer(number, Answer(accepted=False, words="not now"))
        return number

    monkeypatch.setattr(Journal, "ask", answered)
    number, answer = client.send(Pause())

    assert (answer.accepted, answer.words, len(opened)) == (False, "not now", 1)
    assert client.wait_for_answer(number) == answer
