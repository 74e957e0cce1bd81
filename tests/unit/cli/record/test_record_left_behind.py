"""`ktui record` and `watch --record` repair what recorders that died left in their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.options.recording import recorder
from ktui.execution.host.state_dir import StateDir
from ktui.simulated.clock import VirtualClock
from support.recordings.recordings import Recording, files_in, good


def left_behind(folder: Path) -> Path:
    """Return the file of a recorder that died after a head and three polls."""
    earlier = Recording(folder)
    earlier.looks(3)
    earlier.die()
    (file_left,) = files_in(folder)
    assert file_left.suffix == ".tmp"
    return file_left


def begin(state: Path, to: Path | None = None) -> None:
    """Start to record, as both verbs do."""
    recorder(StateDir(state), to, VirtualClock(), cluster="prod", verb="record", redact=False)


def test_a_recording_that_was_cut_off_is_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_left = left_behind(tmp_path / "state" / "recordings")

    begin(tmp_path / "state")

    assert files_in(file_left.parent) == [file_left.with_suffix("")]
    assert len(good(file_left.with_suffix(""))) == 4
    assert capsys.readouterr().err == ""


def test_a_recording_that_cannot_be_repaired_is_kept_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_left = left_behind(tmp_path / "given")
    file_left.write_bytes(b"no gzip")

    begin(tmp_path / "state", tmp_path / "given")

    warning = capsys.readouterr().err
    assert warning.startswith(f"warning: an earlier recording stays cut off: {file_left}:1: ")
    assert file_left.read_bytes() == b"no gzip"


def test_the_files_of_a_live_recorder_are_left_alone(tmp_path: Path) -> None:
    live = Recording(tmp_path / "given")
    live.looks(3)
    (file,) = files_in(tmp_path / "given")

    begin(tmp_path / "state", tmp_path / "given")

    assert files_in(tmp_path / "given") == [file]
    live.looks(1)
    assert len(good(file)) == 5
