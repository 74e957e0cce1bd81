"""The verbs on runs, as a shell has them: exit codes, words, and nothing loaded in vain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ktui.execution.host.state_dir import StateDir
from support.cli.call_ktui import Done, call_ktui
from support.journals.journals import a_start, written

VERBS = ("runs", "status", "limits", "pause", "continue")
WATCHED = {"kafka", "confluent_kafka", "textual", "pyspark", "yaml"}


def ktui(state: Path, *arguments: str) -> Done:
    return call_ktui(*arguments, KTUI_STATE_DIR=str(state))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    run = StateDir(tmp_path).create_run("drain-b3")
    written(run.journal, a_start()).close()
    return tmp_path


def test_run_verbs_find_the_run_in_the_state_directory_of_the_environment(state: Path) -> None:
    assert "drain-b3" in ktui(state, "runs").stdout
    assert ktui(state, "status", "drain-b3").stdout.startswith("run drain-b3: waiting for resume")
    assert "--partitions" in ktui(state, "limits", "drain-b3").stdout


@pytest.mark.parametrize("verb", VERBS[1:])
def test_run_verbs_refuse_an_unknown_run_as_bad_input(state: Path, verb: str) -> None:
    done = ktui(state, verb, "drain-b4")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (f"ktui: no run 'drain-b4' in {state}; did you mean 'drain-b3'?\n")


@pytest.mark.parametrize("verb", [("pause",), ("continue",), ("limits", "--replicas", "2")])
def test_a_command_to_a_run_without_an_engine_is_bad_input(
    state: Path, verb: tuple[str, ...]
) -> None:
    done = ktui(state, verb[0], "drain-b3", *verb[1:])

    assert done.returncode == 2
    assert "ktui resume drain-b3" in done.stderr


def test_an_unreadable_journal_fails_each_run_verb_with_its_path(state: Path) -> None:
    journal = state / "runs" / "drain-b3" / "journal.db"
    journal.write_bytes(b"text" * 1_000)

    for verb in VERBS[1:]:
        done = ktui(state, verb, "drain-b3")

        assert done.returncode == 1
        assert str(journal) in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_each_run_verb_has_a_help_page(state: Path, verb: str) -> None:
    done = ktui(state, verb, "--help")

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
