"""Segments are found and removed where recorders have written them, and nothing else is touched."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from ktui.durable import make_folder
from ktui.recording.reading import Damage, PlayedPoll
from ktui.recording.stored import StoredSegment, is_live, remove_segments, stored_sessions, tidy
from support.recordings.recordings import Recording, files_in, happenings


def recorded(folder: Path, *, segments: int = 3, close: bool = True) -> Recording:
    """Return a recording of some segments, in one session."""
    recording = Recording(folder, longest_s=2.0)
    recording.looks(2 * segments)
    if close:
        recording.recorder.close()
    return recording


def stored(folder: Path) -> list[StoredSegment]:
    return [segment for _, segments in stored_sessions(folder) for segment in segments]


def test_every_segment_of_a_recorder_is_found_with_its_size(tmp_path: Path) -> None:
    recorded(tmp_path)
    recorded(tmp_path / "deeper" / "still", close=False)

    found = stored(tmp_path)

    assert sorted(each.path for each in found) == files_in(tmp_path)
    assert all(each.size == each.path.stat().st_size for each in found)


def test_links_and_other_peoples_files_are_neither_found_nor_removed(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "real")
    (folder,) = {file.parent for file in files_in(recording.folder)}
    others = tmp_path / "others" / folder.name
    others.mkdir(parents=True)
    (others / "notes.txt").write_text("mine")
    (others / "12.jsonl.gz").write_bytes(b"mine")
    (others / "000000.jsonl.gz").symlink_to(files_in(folder)[0])
    (others / "000001.jsonl.gz").mkdir()
    (tmp_path / "others" / "flat.jsonl.gz").write_bytes(b"mine")
    another = "1" if folder.name.endswith("0") else "0"
    (tmp_path / "others" / f"{folder.name[:-1]}{another}").symlink_to(folder)

    assert stored(tmp_path / "others") == []


def test_a_session_is_live_until_its_recorder_closes_it_or_dies(tmp_path: Path) -> None:
    closing, dying = recorded(tmp_path / "1", close=False), recorded(tmp_path / "2", close=False)
    folders = [recording.recorder.path for recording in (closing, dying)]
    assert all(folder is not None and is_live(folder) for folder in folders)

    closing.recorder.close()
    dying.die()

    assert not any(folder is not None and is_live(folder) for folder in folders)


def test_a_session_is_live_at_every_moment_while_its_recorder_goes_to_the_next_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recorded(tmp_path, close=False)
    folder = recording.recorder.path
    assert folder is not None
    seen = []
    rename = Path.rename

    def renamed(path: Path, to: Path) -> Path:
        done = rename(path, to)
        seen.append(is_live(folder))
        return done

    monkeypatch.setattr(Path, "rename", renamed)
    recording.looks(5)

    assert len(seen) > 1
    assert all(seen)


def test_an_empty_segment_counts_as_just_begun_for_an_hour(tmp_path: Path) -> None:
    begun = tmp_path / "000000.jsonl.gz.tmp"
    begun.touch()
    assert is_live(tmp_path)

    os.utime(begun, (0, time.time() - 3_700))  # as a power cut may leave one

    assert not is_live(tmp_path)


def test_empty_folders_of_a_session_and_its_cluster_are_removed_and_no_others(
    tmp_path: Path,
) -> None:
    recorded(tmp_path)
    found = stored(tmp_path)
    session = found[0].session
    tidy(session, tmp_path)
    assert files_in(tmp_path) == [each.path for each in found]

    assert remove_segments(found).removed == tuple(found)
    tidy(session, session.parent)
    assert list(tmp_path.iterdir()) == [session.parent]
    session.mkdir()
    tidy(session, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_what_is_left_of_a_session_is_played(tmp_path: Path) -> None:
    recording = recorded(tmp_path)
    first, *_ = stored(tmp_path)

    remove_segments([first])

    missing, *played = happenings(recording.folder)
    assert isinstance(missing, Damage)
    assert sum(isinstance(each, PlayedPoll) for each in played) == 4


def test_a_segment_that_has_vanished_or_changed_meanwhile_is_no_problem(tmp_path: Path) -> None:
    recorded(tmp_path)
    gone, changed, other = stored(tmp_path)
    gone.path.unlink()
    changed.path.write_bytes(b"another")

    removal = remove_segments([gone, changed, other])

    assert removal.removed == (other,)
    assert removal.problems == ()
    assert files_in(tmp_path) == [changed.path]


def test_no_segment_of_a_live_session_is_removed(tmp_path: Path) -> None:
    recorded(tmp_path, close=False)
    before = files_in(tmp_path)

    assert remove_segments(stored(tmp_path)).removed == ()
    assert files_in(tmp_path) == before


def test_a_segment_of_a_dead_recorder_can_be_removed(tmp_path: Path) -> None:
    recorded(tmp_path, close=False).die()

    remove_segments(stored(tmp_path))

    assert files_in(tmp_path) == []


def test_a_segment_that_may_not_be_removed_is_named_and_the_others_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path)
    found = stored(tmp_path)
    unlink = Path.unlink

    def refused(path: Path) -> None:
        if path == found[0].path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        unlink(path)

    monkeypatch.setattr(Path, "unlink", refused)
    removal = remove_segments(found)

    assert [str(problem) for problem in removal.problems] == [
        f"{found[0].path}: cannot be removed: Permission denied"
    ]
    assert removal.removed == tuple(found[1:])


def test_a_recorder_that_begins_while_empty_folders_are_removed_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def made_and_tidied(folder: Path) -> None:
        make_folder(folder)
        tries.append(folder)
        if len(tries) == 1:
            folder.rmdir()
            folder.parent.rmdir()

    monkeypatch.setattr("ktui.recording.writing.make_folder", made_and_tidied)
    recording = recorded(tmp_path)

    assert recording.recorder.problem is None
    assert len(tries) == 2
    assert len(stored(tmp_path)) == 3
