"""`ktui runs`: the runs on this machine, and unreadable folders shown as unreadable."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.cluster.clock import SystemClock
from ktui.execution.host.ownership import Holder, own_run
from ktui.execution.host.process import note_poll, silence
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Outage
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from support.journals.journals import a_start, planned, started, written


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def a_run(here: StateDir, name: str, *more: AnyRunEvent) -> RunDir:
    run = here.create_run(name)
    written(run.journal, [*a_start(), *more]).close()
    return run


def runs(here: StateDir, *arguments: str) -> Any:
    done = CliRunner().invoke(ktui, ["runs", "--state-dir", str(here.path), *arguments])
    assert done.exit_code == 0, done.output
    return done


def row(text: str, name: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return " ".join(line.split())


def test_a_folder_that_is_no_state_directory_does_not_read_as_one_without_runs(
    here: StateDir,
) -> None:
    here.path.mkdir()
    (here.path / "notes.txt").touch()

    assert f"ktui has never run a plan in {here.path}. Name another" in runs(here).stdout


def test_a_file_in_the_place_of_the_state_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "drain.json"
    file.touch()
    monkeypatch.setenv("KTUI_STATE_DIR", str(file))

    done = CliRunner().invoke(ktui, ["runs"])

    assert f"{file}: is a file, not a state directory. Name its folder: --state-dir" in str(
        done.exception
    )


def owned_for_days() -> Holder:
    return Holder(4711, "ops1", "ada", SystemClock().now() - timedelta(days=9))


def polled(run: RunDir, seconds_ago: float) -> datetime:
    """Set the time of the last poll of a run; return it."""
    note_poll(run)
    at = SystemClock().now() - timedelta(seconds=seconds_ago)
    os.utime(run.last_poll, (at.timestamp(), at.timestamp()))
    return at


def test_a_run_whose_engine_no_longer_polls_is_shown_as_silent(here: StateDir) -> None:
    run = a_run(here, "drain")
    polled(run, 52.5 * 3600)
    with own_run(run, owned_for_days()):
        listed = runs(here)
        status_shown = CliRunner().invoke(ktui, ["status", "drain", "--state-dir", str(here.path)])
    left = runs(here)

    assert row(listed.stdout, "drain").startswith("drain running, silent 0/3")
    words = "no poll for 2d 4h: its process may be suspended, or wait for a locked journal"
    assert f"ktui: run drain: {words}" in listed.stderr
    assert words in status_shown.stdout
    assert "silent" not in left.stdout
    assert left.stderr == ""


@pytest.mark.parametrize(
    ("silent_s", "poll_s", "lost", "since_s"),
    [(29, 1, False, 3600), (290, 60, False, 3600), (290, 1, True, 3600), (3600, 1, False, 20)],
    ids=["a moment", "five polls", "the cluster is lost", "just resumed"],
)
def test_an_ordinary_silence_is_not_reported(
    silent_s: float, poll_s: float, since_s: float, *, lost: bool
) -> None:
    now = SystemClock().now()
    start_event = msgspec.structs.replace(started(1), options=RunOptions(poll_s=poll_s))
    events: list[AnyRunEvent] = [start_event, planned(1), Outage(lost=lost)]
    run = Run("drain").fold(JournalEntry(n, now, event) for n, event in enumerate(events, start=1))
    owner = Holder(4711, "ops1", "ada", now - timedelta(seconds=since_s))

    assert silence(run, owner, now - timedelta(seconds=silent_s), now) is None


def test_json_of_runs_has_the_time_of_the_last_poll(here: StateDir) -> None:
    run, at = a_run(here, "drain"), datetime(2026, 11, 21, 14, 2, 31, tzinfo=UTC)
    (never,) = json.loads(runs(here, "--json").stdout)["runs"]
    polled(run, 0.0)
    os.utime(run.last_poll, (at.timestamp(), at.timestamp()))

    (listed_run,) = json.loads(runs(here, "--json").stdout)["runs"]
    arguments = ["status", "drain", "--json", "--state-dir", str(here.path)]
    status = json.loads(CliRunner().invoke(ktui, arguments).stdout)

    assert never["last_look_at"] is None
    assert listed_run["last_look_at"] == status["last_look_at"] == "2026-11-21T14:02:31.000Z"


def test_unreadable_runs_are_shown_beside_readable_ones(here: StateDir) -> None:
    a_run(here, "good")
    here.create_run("garbage").journal.write_text("text" * 1_000, encoding="utf-8")
    (here.runs / "odd\x1b[31m").mkdir()

    done = runs(here)

    assert row(done.stdout, "good").startswith("good waiting for resume 0/3")
    assert row(done.stdout, "garbage") == "garbage unreadable - - - - - - - -"
    assert "ktui: run garbage: " in done.stderr
    assert "not an SQLite file" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "odd\\x1b[31m" in done.stdout
