"""A note stands among the events of a run, whoever has the run, with its author."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ktui.execution.errors import JournalProblem, RunRefused
from ktui.execution.host.client import LONGEST_NOTE, RunClient, write_note
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Ended, EngineLeft, Exported
from ktui.execution.run.states import State
from ktui.simulated.clock import VirtualClock
from support.cli.call_ktui import call_ktui
from support.cli.owned_run import owned_run
from support.journals.journals import a_start, written

WORDS = "broker 4 gets a new disk at 15:00"


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def left(state: StateDir) -> RunDir:
    run = state.create_run("drain")
    written(run.journal, [*a_start(), EngineLeft(reason="shift over")]).close()
    return run


def status(state: StateDir, *words: str) -> str:
    return call_ktui("status", "drain", "--state-dir", str(state.path), *words).stdout


def test_a_note_on_a_run_without_an_engine_is_shown_wherever_the_run_is(
    state: StateDir, left: RunDir
) -> None:
    where = ("--state-dir", str(state.path))

    noted = call_ktui("note", "drain", *where, *WORDS.split())

    me = this_process().short
    assert (noted.returncode, noted.stdout) == (0, "run drain: noted\n")
    assert f"note: {WORDS}, by {me}" in status(state, "--events")
    assert f"{WORDS} (" in status(state)
    (note,) = json.loads(status(state, "--json"))["notes"]
    assert (note["text"], note["who"]) == (WORDS, me)
    assert f"run drain: note: {WORDS}, by {me}, " in call_ktui("runs", *where).stdout
    assert RunClient(left).owner is None


def test_the_engine_of_a_live_run_writes_the_note_with_the_name_of_its_author(
    state: StateDir,
) -> None:
    with owned_run(state, "drain") as folder:
        write_note(RunClient(folder), WORDS)
        run = RunClient(folder).read().run

    assert [(n.event.text, n.event.who) for n in run.notes] == [(WORDS, this_process().short)]


def test_an_ended_run_takes_notes_and_stays_ended(left: RunDir) -> None:
    with Journal.open(left.journal, VirtualClock()) as journal:
        journal.append([Ended(counts={State.DONE: 1})])

    write_note(RunClient(left), WORDS)

    run = RunClient(left).read().run
    assert run.ended
    assert [note.event.text for note in run.notes] == [WORDS]


def test_a_hostile_note_is_shown_escaped(state: StateDir, left: RunDir) -> None:
    write_note(RunClient(left), "\x1b[2J\u202eall is well")

    assert "\\x1b[2J\\u202eall is well (" in status(state)
    assert "\x1b" not in status(state, "--events") + status(state, "--json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" ", "needs some words"),
        ("x" * (LONGEST_NOTE + 1), "500 characters at most; this text has 501"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_a_text_that_is_no_note_is_refused(left: RunDir, text: str, why: str) -> None:
    with pytest.raises(RunRefused, match=why):
        write_note(RunClient(left), text)

    assert RunClient(left).read().run.notes == []


def test_a_run_that_goes_on_elsewhere_or_is_damaged_takes_no_note(
    state: StateDir, left: RunDir
) -> None:
    with Journal.open(left.journal, VirtualClock()) as journal:
        journal.append([Exported(run="drain", file="drain.run", host="ops1", user="ada")])
    with pytest.raises(RunRefused, match=r"was exported to drain\.run"):
        write_note(RunClient(left), WORDS)

    damaged = state.create_run("damaged")
    written(damaged.journal, a_start()).close()
    with closing(sqlite3.connect(damaged.journal, isolation_level=None)) as other:
        other.execute("DROP TRIGGER events_stay_as_they_are")
        other.execute("UPDATE events SET body = replace(body, 'orders', 'odders') WHERE seq = 2")
    with pytest.raises(JournalProblem, match="`ktui resume damaged` recovers what is whole"):
        write_note(RunClient(damaged), WORDS)
