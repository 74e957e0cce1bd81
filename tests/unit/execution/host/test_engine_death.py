"""How an engine is said to have died: by what its log ends with, if that can be the cause."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktui.execution.host.process import EngineProcess, engine_death
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import Owned
from ktui.execution.run.run import Run
from support.journals.journals import a_start, written

AT = "2026-11-28T15:27:22.521Z"
SHOWN = datetime(2026, 11, 28, 15, 27, 22, tzinfo=UTC).astimezone().strftime("%H:%M:%S")


@pytest.fixture
def dead(tmp_path: Path) -> tuple[RunDir, Run]:
    """Return a run that an engine owned, of which nothing is left."""
    folder = StateDir(tmp_path / "state").create_run("drain")
    with written(folder.journal, [*a_start(2), Owned(pid=1, host="here", user="ada")]) as journal:
        return folder, Run("drain").fold(journal.entries())


def said(dead: tuple[RunDir, Run], *lines: str) -> str:
    folder, run = dead
    folder.log.write_text("".join(f"{line}\n" for line in lines))
    return engine_death(folder, run)


@pytest.mark.parametrize("level", ["INFO throttle 2 -> 4 MB/s", "DEBUG a poll"])
def test_the_last_thing_that_an_engine_did_is_not_named_as_the_cause_of_its_death(
    dead: tuple[RunDir, Run], level: str
) -> None:
    words = said(dead, f"{AT} WARNING orders-1: stalled", f"{AT} {level}")

    assert words == f"it was killed, or its host went down; its log ends at {SHOWN}"


@pytest.mark.parametrize(
    "line",
    [
        f"{AT} WARNING the journal cannot be written",
        f"{AT} ERROR a defect",
        "ktui: journal.db: cannot be written: No space left on device",
        "MemoryError",
    ],
)
def test_a_warning_an_error_or_the_interpreters_words_at_the_end_are_the_cause(
    dead: tuple[RunDir, Run], line: str
) -> None:
    assert said(dead, f"{AT} INFO decision 1: 2 steps", line) == line


def test_without_a_log_the_time_of_the_last_poll_is_what_is_known(dead: tuple[RunDir, Run]) -> None:
    folder, run = dead
    folder.last_poll.touch()
    os.utime(folder.last_poll, (2e9, 2e9))
    shown = datetime.fromtimestamp(2e9).astimezone().strftime("%H:%M:%S")

    assert engine_death(folder, run) == f"it was killed, or its host went down, after {shown}"


def test_an_engine_that_ends_while_it_starts_is_explained_by_its_errors_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StateDir(tmp_path / "state").create_run("drain")
    code = f"print('{AT} INFO decision 1: 2 steps')\nprint('{AT} ERROR no brokers')\nexit(1)"
    monkeypatch.setattr("ktui.execution.host.process.PYTHON", ("python", "-c", code))
    engine = EngineProcess(folder, [])

    assert engine.wait(60.0)
    assert engine.last_words == f"{AT} ERROR no brokers"
