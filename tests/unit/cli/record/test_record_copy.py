"""A recording to give away: copied without names, with a key that is the user's own."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path
from zlib import crc32

import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cli.options.recording import redaction
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import FileProblem
from ktui.recording.reading import BadLine, GoodLine, find_sessions, read_lines
from support.recordings.recordings import Recording, the_session


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A recording of two files."""
    recording = Recording(tmp_path / "source", cluster="prod-eu", longest_s=5.0)
    recording.looks(8)
    recording.recorder.close()
    return recording.folder


def copy(state: StateDir, source: Path, to: Path, *more: str) -> Result:
    words = ["--from", str(source), "--to", str(to), "--redact", "--state-dir", str(state.path)]
    return CliRunner().invoke(ktui, ["record", *words, *more])


def texts(folder: Path) -> list[str]:
    files = [file for session in find_sessions(folder) for file in session.files]
    read = [each for file in files for each in read_lines(file)]
    assert not [each for each in read if isinstance(each, BadLine)]
    return [each.text.decode() for each in read if isinstance(each, GoodLine)]


def test_a_copy_has_every_line_and_no_name(state: StateDir, source: Path, tmp_path: Path) -> None:
    done = copy(state, source, tmp_path / "given")

    assert done.exit_code == 0, done.output
    before, after = texts(source), texts(tmp_path / "given")
    assert len(after) == len(before)
    assert "orders" in "".join(before)
    names = ("orders", "a-cluster", "prod-eu", "127.0.0.1")
    assert [name for name in names for text in after if name in text] == []
    assert done.stdout == (
        f"copied 1 session, {len(after)} lines, with names hidden: {tmp_path / 'given'}\n"
    )
    original, copied = the_session(source), the_session(tmp_path / "given")
    assert [file.name for file in copied.files] == [file.name for file in original.files]
    assert len(copied.files) > 1
    assert copied.head.session != original.head.session


def test_a_hostile_file_is_left_out_and_the_others_are_copied(
    state: StateDir, source: Path, tmp_path: Path
) -> None:
    """Twenty megabytes of line feeds, each of which was once reported on its own."""
    first, second = the_session(source).files
    lines_in_good_files = len(list(read_lines(second)))
    first.write_bytes(first.read_bytes() + gzip.compress(b"\n" * 20_000_000, 9))
    (source / "empty.jsonl.gz").touch()

    done = copy(state, source, tmp_path / "given", "--json")

    assert done.exit_code == 0, done.output
    left_out = json.loads(done.stdout)["left_out"]
    assert len(left_out) == 1_002
    assert (
        left_out[0]
        == f"{source}/empty.jsonl.gz:1: not a readable recording: there is nothing in it"
    )
    assert left_out[-1].endswith(": after 1,000 bad lines the rest is skipped")
    assert len(texts(tmp_path / "given")) > lines_in_good_files
    assert "left out: 992 more places" in done.stderr


def test_a_damaged_place_is_left_out_and_reported(
    state: StateDir, source: Path, tmp_path: Path
) -> None:
    first = the_session(source).files[0]
    first.write_bytes(first.read_bytes()[:-40])

    done = copy(state, source, tmp_path / "given", "--json")

    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert (printed["sessions"], printed["files"]) == (1, 2)
    (damaged_place,) = printed["left_out"]
    assert damaged_place.startswith(f"{first}:")
    assert f"left out: {damaged_place}" in done.stderr
    assert texts(tmp_path / "given")


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(b'{"event":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"x":' + b"[" * 900 + b"]" * 900 + b"}", id="nested"),
        pytest.param(b'{"event":"left","x":1e400}', id="no number"),
    ],
)
def test_a_malformed_event_is_left_out_and_its_line_reported(
    state: StateDir, source: Path, tmp_path: Path, event: bytes
) -> None:
    first, lines_in_good_files = the_session(source).files[0], len(texts(source))
    written = gzip.decompress(first.read_bytes()).splitlines(keepends=True)
    line = (
        b'{"kind":"run","seq":1,"at":1770000000000,"ms":1,"run":"x","run_id":"x","entry":1,"event":'
    )
    line += event
    written.insert(1, line + b',"crc":"%08x"}\n' % crc32(line))
    first.write_bytes(gzip.compress(b"".join(written)))

    done = copy(state, source, tmp_path / "given")

    assert done.exit_code == 0, done.output
    assert f"left out: {first}:2: the line cannot be read: " in done.stderr
    assert len(texts(tmp_path / "given")) == lines_in_good_files


def test_an_existing_copy_is_not_overwritten(state: StateDir, source: Path, tmp_path: Path) -> None:
    copy(state, source, tmp_path / "given")

    error = copy(state, source, tmp_path / "given").exception

    assert isinstance(error, FileProblem)
    assert "already exists. Name another folder with --to DIR" in str(error)


def test_copying_from_a_folder_without_a_recording_is_refused(
    state: StateDir, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()

    error = copy(state, tmp_path / "empty", tmp_path / "given").exception

    assert isinstance(error, FileProblem)
    assert "there is no recording in it" in str(error)


def test_the_redaction_key_is_made_once_for_its_owner_and_hides_names_consistently(
    state: StateDir,
) -> None:
    hidden = redaction(state).hide("topic", "orders")

    assert stat.S_IMODE(state.redaction_key.stat().st_mode) == 0o600
    assert [path.name for path in state.path.iterdir()] == [state.redaction_key.name]
    assert redaction(state).hide("topic", "orders") == hidden
    assert hidden.startswith("topic-")


def test_another_state_directory_hides_names_differently(state: StateDir, tmp_path: Path) -> None:
    other = StateDir(tmp_path / "other")

    assert redaction(state).hide("topic", "orders") != redaction(other).hide("topic", "orders")


@pytest.mark.parametrize("text", ["", "no key", "abcd"])
def test_a_damaged_redaction_key_is_named_with_the_fix(state: StateDir, text: str) -> None:
    state.make(state.path)
    state.redaction_key.write_text(text)

    with pytest.raises(FileProblem, match=r"is not a key of 32 bytes.*Remove the file"):
        redaction(state)
