"""Runs are exported, noted and named."""

import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.context.cluster import check_cluster
from ktui.cluster.errors import Unreachable
from ktui.cluster.ownership import Unowned
from ktui.execution import JournalProblem, RunRefused
from ktui.execution.host.client import LONGEST_NOTE, RunClient, write_note
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import Ended, EngineLeft, Exported
from ktui.execution.run.states import State
from ktui.simulated.clock import VirtualClock
from support.cli.call_ktui import Done, call_ktui
from support.cli.shell import TwoHosts, assert_owned, folded_run, owned_run, words
from support.journals.journals import a_start, step, written


@pytest.mark.parametrize("file_name", ["no/such/folder.run", "n" * 300, "a-link.run"])
def test_an_export_to_a_file_that_cannot_be_created_leaves_the_run_as_it_was(
    hosts: TwoHosts, tmp_path: Path, file_name: str
) -> None:
    hosts.run()
    hosts.resume(hosts.here)
    (tmp_path / "a-link.run").symlink_to("nowhere")

    refused = words(hosts.ktui("runs", "export", "drain", str(tmp_path / file_name)))

    assert str(tmp_path / file_name) in refused
    assert "Name another file" in refused
    assert folded_run(hosts.here).exported is None
    assert_owned(hosts.standing)


def test_a_run_of_an_unreachable_cluster_is_exported_only_without_ownership(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> None:
        raise Unreachable("asking for the brokers")

    monkeypatch.setattr("ktui.cli.run.hand_over.check_cluster", unreachable)
    hosts.run()

    refused = words(hosts.export())

    assert "asking for the brokers: no answer" in refused
    assert "--no-ownership" in refused
    assert folded_run(hosts.here).exported is None
    assert hosts.export("--no-ownership").exit_code == 0


def test_exporting_a_run_of_someone_elses_cluster_warns_and_leaves_their_claim(
    hosts: TwoHosts,
) -> None:
    hosts.run()
    hosts.claimed_by("bob")

    exported = hosts.export()

    assert "bob on ops1" in exported.stderr
    assert "import" in exported.stdout
    assert "--take-over" in exported.stdout
    assert_owned(hosts.standing)


def test_exporting_a_run_twice_records_one_export(hosts: TwoHosts, tmp_path: Path) -> None:
    run = hosts.run()
    hosts.export()
    hosts.ktui("runs", "export", "drain", str(tmp_path / "again.run"))

    with RunFollower(run.journal) as follower:
        kinds = [type(entry.event) for entry in follower.refresh()]
    assert kinds.count(Exported) == 1


def test_a_damaged_run_is_not_exported_until_it_is_recovered(hosts: TwoHosts) -> None:
    run = hosts.run(step(0))
    intact = run.journal.read_bytes()
    at = intact.rindex(b"adding")
    run.journal.write_bytes(intact[:at] + b"A" + intact[at + 1 :])

    assert "ktui resume drain` recovers what is whole" in words(hosts.export())
    assert not hosts.file.exists()


def test_resuming_a_run_that_is_exported_meanwhile_starts_no_engine(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.run()
    original_check = check_cluster

    async def export_meanwhile(*cluster: Any) -> None:
        await original_check(*cluster)
        with ThreadPoolExecutor(1) as executor:
            assert executor.submit(hosts.export).result().exit_code == 0

    monkeypatch.setattr("ktui.cli.follow.check_cluster", export_meanwhile)

    assert "was exported to" in words(hosts.resume(hosts.here))

    assert not hosts.engines
    assert hosts.standing == Unowned()


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


VERBS = ("runs", "status", "limits", "pause", "continue")
WATCHED = {"kafka", "confluent_kafka", "textual", "pyspark", "yaml"}


def ktui(state: Path, *arguments: str) -> Done:
    return call_ktui(*arguments, KTUI_STATE_DIR=str(state))


@pytest.fixture
def verbs_on_runs_state(tmp_path: Path) -> Path:
    run = StateDir(tmp_path).create_run("drain-b3")
    written(run.journal, a_start()).close()
    return tmp_path


def test_an_unreadable_journal_fails_each_run_verb_with_its_path(verbs_on_runs_state: Path) -> None:
    journal = verbs_on_runs_state / "runs" / "drain-b3" / "journal.db"
    journal.write_bytes(b"text" * 1_000)

    for verb in VERBS[1:]:
        done = ktui(verbs_on_runs_state, verb, "drain-b3")

        assert done.returncode == 1
        assert str(journal) in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_each_run_verb_has_a_help_page(verbs_on_runs_state: Path, verb: str) -> None:
    done = ktui(verbs_on_runs_state, verb, "--help")

    assert done.returncode == 0
    assert "Usage: " in done.stdout
    assert "--state-dir" in done.stdout


def test_no_run_verb_loads_a_kafka_client_or_a_screen_library() -> None:
    code = (
        "import sys; from ktui.cli.main import ktui;"
        "[ktui.get_command(None, verb) for verb in sys.argv[1:]];"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *VERBS], capture_output=True, text=True, check=True
    )

    assert not WATCHED & set(done.stdout.split())
