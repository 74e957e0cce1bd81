"""Whatever records begins with pruning old recordings, within config.yaml's or its own limits."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cli.record import command as record_command
from ktui.cli.record.prune import record_run
from ktui.cli.watch import command as watch
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from support.cli.named_cluster import NamedCluster
from support.journals.journals import a_start
from support.recordings.lakes import read_into_lake
from support.recordings.recordings import Recording, files_in
from support.simulated.moving_clusters import a_cluster

Begin = Callable[[StateDir], str]
"""Begins to record, and returns the warnings."""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDir:
    """A state directory with a recording that was last written in 1970, and a cluster to record."""
    named = NamedCluster(reader=a_cluster().reader)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    state = StateDir(tmp_path / "state")
    old = Recording(state.recordings)
    old.looks(1)
    old.recorder.close()
    for file in files_in(state.recordings):
        os.utime(file, (0, 0))
    return state


def _config(state: StateDir, recordings: str) -> None:
    (state.path.parent / "config.yaml").write_text(f"recordings: {{{recordings}}}")


def _old(state: StateDir) -> list[Path]:
    return [file for file in files_in(state.recordings) if file.stat().st_mtime == 0]


def _called(state: StateDir, *words: str) -> str:
    done = CliRunner().invoke(ktui, [*words, "--context", "prod", "--state-dir", str(state.path)])
    assert done.exit_code == 0, done.output
    return done.stderr


def record(state: StateDir, *options: str) -> str:
    async def nothing(*_: object, **__: object) -> int:
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_command, "record", nothing)
        return _called(state, "record", *options)


def watch_recorded(state: StateDir) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "need_terminal", lambda: None)
        patch.setattr(watch, "show", lambda _: None)
        return _called(state, "watch", "--record")


def engine(state: StateDir, *, is_recorded: bool = True) -> str:
    entries = [JournalEntry(n, datetime.now(UTC), event) for n, event in enumerate(a_start(), 1)]
    run = Run("drain").fold(entries)
    with record_run(state, run, "prod", a_cluster().clock, record=is_recorded):
        return ""


BEGINNINGS = pytest.mark.parametrize("begin", [record, watch_recorded, engine])


@BEGINNINGS
def test_what_begins_to_record_first_prunes_as_the_config_file_says(
    state: StateDir, begin: Begin
) -> None:
    _config(state, "older_than: 30d, force: on")

    begin(state)

    assert _old(state) == []


@BEGINNINGS
def test_without_limits_nothing_is_pruned(state: StateDir, begin: Begin) -> None:
    begin(state)

    assert _old(state)


@BEGINNINGS
def test_what_no_lake_has_read_stays_with_a_warning(
    state: StateDir, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    _config(state, "older_than: 30d")

    said = begin(state)

    assert _old(state)
    assert "because no lake has read them" in said + caplog.text


def test_an_engine_that_records_nothing_prunes_nothing(state: StateDir) -> None:
    _config(state, "older_than: 30d, force: on")

    engine(state, is_recorded=False)

    assert _old(state)


@pytest.mark.parametrize("limit", [("--older-than", "30d"), ("--keep", "1")])
def test_options_of_record_limit_recordings_like_those_of_prune(
    state: StateDir, limit: tuple[str, str]
) -> None:
    lake = state.path.parent / "lake"
    read_into_lake(_old(state), lake)
    _config(state, f"keep: 1TB, lakes: [{lake}]")

    record(state, *limit)

    assert _old(state) == []


def test_options_of_record_do_not_take_the_force_of_the_config_file(state: StateDir) -> None:
    _config(state, "keep: 1TB, force: on")

    assert "because no lake has read them" in record(state, "--older-than", "30d")
    assert _old(state)


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("--keep", "much"), "--keep: expected a size"),
        (("--older-than", "old"), "--older-than: expected a time"),
        (("--keep", "1GB", "--to", "there"), "ktui record prune --recordings DIR"),
        (("--keep", "1GB", "--from", "."), "no limits"),
    ],
)
def test_limits_of_record_that_cannot_be_meant_are_refused(
    words: tuple[str, ...], fix: str
) -> None:
    error = CliRunner().invoke(ktui, ["record", *words]).exception

    assert isinstance(error, BadInput)
    assert fix in str(error)
