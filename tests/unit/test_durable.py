"""Files that outlast a power cut, and are never seen half written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ktui.durable import make_folder, write_whole


def test_a_file_is_on_the_disk_before_it_takes_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rollback.json"
    path.write_text("old", encoding="utf-8")
    seen: list[tuple[str, str]] = []

    def synced(file: int) -> None:
        synced_is = "folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file"
        seen.append((synced_is, path.read_text(encoding="utf-8")))

    monkeypatch.setattr(os, "fsync", synced)
    write_whole(path, b"new")

    assert seen == [("file", "old"), ("folder", "new")]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rollback.json"
    path.write_text("old", encoding="utf-8")

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")

    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_a_folders_place_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
