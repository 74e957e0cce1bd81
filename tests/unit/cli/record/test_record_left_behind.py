"""`ktui record` and `watch --record` make whole what recorders that died left in their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.options.recording import recorder
from ktui.execution.host.state_dir import StateDir
from ktui.simulated.clock import VirtualClock
from support.recordings.recordings import Recording, files_in, good


def left_behind(folder: Path) -> Path:
    """The file of a recorder that died after a head and three looks."""
    earlier = Recording(folder)
    earlier.looks(3)
    earlier.die()
    (left,) = files_in(folder)
    assert left.suffix == ".tmp"
    return left


def begin(state: Path, to: Path | None = None) -> None:
    """Begin to record, as both verbs do."""
    recorder(StateDir(state), to, VirtualClock(), cluster="prod", verb="record", redact=False)


def test_what_was_left_behind_is_made_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = left_behind(tmp_path / "state" / "recordings")

    begin(tmp_path / "state")

    assert files_in(left.parent) == [left.with_suffix("")]
    assert len(good(left.with_suffix(""))) == 4
    assert capsys.readouterr().err == ""


def test_what_cannot_be_made_whole_is_told_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = left_behind(tmp_path / "given")
    left.write_bytes(b"no gzip")

    begin(tmp_path / "state", tmp_path / "given")

    told = capsys.readouterr().err
    assert told.startswith(f"warning: an earlier recording stays cut off: {left}:1: ")
    assert left.read_bytes() == b"no gzip"


def test_what_a_live_recorder_is_at_is_left_alone(tmp_path: Path) -> None:
    live = Recording(tmp_path / "given")
    live.looks(3)
    (file,) = files_in(tmp_path / "given")

    begin(tmp_path / "state", tmp_path / "given")

    assert files_in(tmp_path / "given") == [file]
    live.looks(1)
    assert len(good(file)) == 5
