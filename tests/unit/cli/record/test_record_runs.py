"""Runs are recorded unless an option turns it off, and status shows a recording that stopped."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ktui.cli.engine.log import EngineLog
from ktui.cli.main import ktui
from ktui.cli.process.launch import Launch
from ktui.cli.record.prune import record_run
from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Interest
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Recording, Started
from ktui.execution.run.run import Run
from ktui.recording.lines import AnyLine, RunLine
from ktui.recording.reading import GoodLine, find_sessions, read_lines
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import CLUSTER, a_start, written
from support.recordings.recordings import Recording as ARecording
from support.simulated.moving_clusters import a_cluster
from support.views.watching import Looks

STOPPED = Recording(on=False, reason="/disk: recording has stopped: no space left on device")


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def a_run(here: StateDir, *more: AnyRunEvent) -> RunDir:
    run = here.create_run("drain")
    written(run.journal, [*a_start(), *more]).close()
    return run


def entries(run: RunDir) -> list[JournalEntry]:
    with Journal.open(run.journal, SystemClock(), read_only=True) as journal:
        return list(journal.entries())


def folded(run: RunDir) -> Run:
    return Run(run.name).fold(entries(run))


def shown(here: StateDir, *words: str) -> Any:
    done = CliRunner().invoke(ktui, [*words, "--state-dir", str(here.path)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in words else done.stdout


def read(run: RunDir) -> list[AnyLine]:
    files = [file for session in find_sessions(run.recording) for file in session.files]
    return [each.line for file in files for each in read_lines(file) if isinstance(each, GoodLine)]


async def test_an_engines_polls_and_its_whole_journal_are_recorded(here: StateDir) -> None:
    run, cluster = a_run(here), a_cluster(moving=["orders-0"], name=CLUSTER)
    polls, run_so_far = Looks(cluster), folded(run)

    with record_run(here, run_so_far, "prod-eu", cluster.clock, record=None) as recorded:
        recorded.take(entries(run))
        await recorded.through(polls).poll(Interest())
        assert recorded.state() == Recording(on=True)
    await polls.aclose()

    (session,) = find_sessions(run.recording)
    assert session.head.cluster == "prod-eu"
    assert [line.entry for line in read(run) if isinstance(line, RunLine)] == [1, 2, 3]


async def test_a_run_with_recording_off_leaves_no_folder(here: StateDir) -> None:
    run, cluster = a_run(here), a_cluster()
    polls, run_so_far = Looks(cluster), folded(run)

    with record_run(here, run_so_far, "prod-eu", cluster.clock, record=False) as recorded:
        assert recorded.through(polls) is polls
        assert recorded.state() == Recording(on=False)

    assert not run.recording.exists()


def test_the_next_engine_repairs_a_recording_that_was_cut_off(here: StateDir) -> None:
    run, cluster = a_run(here), a_cluster()
    run_so_far = folded(run)
    killed = ARecording(run.recording)
    killed.looks(3)
    killed.die()
    assert list(run.recording.rglob("*.tmp"))

    with record_run(here, run_so_far, "prod-eu", cluster.clock, record=False):
        assert not list(run.recording.rglob("*.tmp"))

    assert len(read(run)) == 4


def test_status_and_runs_show_a_recording_that_had_to_stop(here: StateDir) -> None:
    run = a_run(here, Recording(on=True), STOPPED)

    with own_run(run):
        (of_runs,) = shown(here, "runs", "--json")["runs"]
        assert of_runs["recording"] == {"on": False, "reason": STOPPED.reason}
        assert shown(here, "status", "drain", "--json")["recording"] == of_runs["recording"]
        assert f"recording  {STOPPED.reason}" in shown(here, "status", "drain")


def test_a_run_is_shown_as_recorded_only_while_an_engine_owns_it(here: StateDir) -> None:
    run = a_run(here, Recording(on=True))

    assert shown(here, "status", "drain", "--json")["recording"] == {"on": False, "reason": ""}
    with own_run(run):
        assert shown(here, "status", "drain", "--json")["recording"]["on"]
        assert "recording  on" in " ".join(shown(here, "status", "drain").split("\n"))


def test_the_engine_log_warns_of_a_recording_that_had_to_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, run = a_cluster().clock.now(), Run("drain")
    run_events = [*a_start(), Recording(on=True), STOPPED]
    shown = [JournalEntry(n, now, event) for n, event in enumerate(run_events, start=1)]
    run.fold(shown)

    with caplog.at_level(logging.INFO, "ktui.cli.engine.log"):
        EngineLog(run).write(shown[-2:])

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "the engine records what it observes"),
        ("WARNING", STOPPED.reason),
    ]


@pytest.mark.parametrize(("words", "record"), [([], True), (["--no-record"], False)])
def test_the_journal_keeps_whether_the_run_is_recorded(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch, words: list[str], *, record: bool
) -> None:
    monkeypatch.setattr("ktui.execution.host.launch.shutil.rmtree", lambda *_, **__: None)

    sandbox.start(sandbox.plan(), "--headless", *words)

    (name,) = sandbox.runs
    run_so_far = entries(sandbox.state.run(name))[0].event
    assert isinstance(run_so_far, Started)
    assert run_so_far.options.record is record


@pytest.mark.parametrize("record", [None, True, False])
def test_an_engine_gets_a_recording_option_only_where_it_differs_from_the_run(
    here: StateDir, *, record: bool | None
) -> None:
    launch = Launch(
        state=here, name="drain", cluster_id="a", names={}, until=None, concurrent=False,
        record=record,
    )  # fmt: skip

    shown = [word for word in launch.arguments if word.startswith("--") and "record" in word]

    assert shown == ([] if record is None else ["--record" if record else "--no-record"])
