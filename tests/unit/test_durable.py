"""Files survive a power cut, and are never seen half written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ktui.durable import make_folder, write_whole


def test_a_file_is_synced_to_disk_before_it_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rollback.json"
    path.write_text("old", encoding="utf-8")
    syncs: list[tuple[str, str]] = []

    def synced(file: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file"
        syncs.append((kind, path.read_text(encoding="utf-8")))

    monkeypatch.setattr(os, "fsync", synced)
    write_whole(path, b"new")

    assert syncs == [("file", "old"), ("folder", "new")]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
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


def test_making_a_folder_where_a_file_exists_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
