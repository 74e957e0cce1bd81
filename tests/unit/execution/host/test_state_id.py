"""A state directory has one id for good, which none of its copies shares."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ktui.execution.host.state_dir import StateDir, StateDirProblem, ensure_id, read_id


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def test_a_state_directory_gets_its_id_when_first_asked_and_keeps_it(state: StateDir) -> None:
    assert read_id(state) is None
    assert not state.path.exists()

    first = ensure_id(state)

    assert first == ensure_id(state) == read_id(state)
    assert [path.name for path in state.path.iterdir()] == ["id"]


def test_a_copied_directory_is_another_owner_and_the_original_stays_the_same(
    state: StateDir, tmp_path: Path
) -> None:
    first = ensure_id(state)
    copied = StateDir(tmp_path / "copied")
    shutil.copytree(state.path, copied.path)

    assert read_id(copied) is None
    assert ensure_id(copied) not in (first, "")
    assert ensure_id(copied) == read_id(copied)
    assert ensure_id(state) == first


def test_a_moved_directory_is_the_same_owner(state: StateDir, tmp_path: Path) -> None:
    first = ensure_id(state)

    state.path.rename(tmp_path / "moved")

    assert ensure_id(StateDir(tmp_path / "moved")) == first


@pytest.mark.parametrize("content", [b"", b"what is this", b'{"id": "stolen", "inode": 1}'])
def test_a_file_without_an_id_of_its_own_is_replaced(state: StateDir, content: bytes) -> None:
    state.path.mkdir()
    state.id_file.write_bytes(content)

    assert ensure_id(state) not in ("", "stolen")
    assert ensure_id(state) == read_id(state)


def test_all_callers_at_once_get_the_same_id(state: StateDir) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ensure_id, [state] * 8))) == 1


def test_an_unreadable_id_file_is_named(state: StateDir) -> None:
    state.id_file.mkdir(parents=True)

    with pytest.raises(StateDirProblem, match=str(state.id_file)):
        ensure_id(state)
