"""A recording is readable by its owner only, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.recording.writing import seal
from support.recordings.recordings import Recording, files_in


@pytest.fixture(params=[0o000, 0o022, 0o277], ids=oct)
def _any_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    below = (path for path in folder.rglob("*") if path.is_dir())
    return {path.name: path.stat().st_mode & 0o777 for path in (folder, *below)}


@pytest.mark.usefixtures("_any_umask")
def test_folders_and_files_of_a_recording_are_private(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "new" / "recordings", longest_s=5.0)
    recording.looks(8)
    recording.die()

    assert set(modes(tmp_path / "new").values()) == {0o700}
    assert len(files_in(recording.folder)) == 2
    assert {file.stat().st_mode & 0o777 for file in files_in(recording.folder)} == {0o600}
    (sealed,) = seal(recording.folder).files
    assert sealed.stat().st_mode & 0o777 == 0o600


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)

    recording = Recording(tmp_path)
    recording.looks(1)

    assert tmp_path.stat().st_mode & 0o777 == 0o750
    (cluster,) = tmp_path.iterdir()
    assert cluster.stat().st_mode & 0o777 == 0o700
