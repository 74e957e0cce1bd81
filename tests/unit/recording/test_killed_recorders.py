"""A recorder that dies loses at most the line that it was writing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktui.recording import segments
from ktui.recording.reading import Damage, PlayedPoll, read_lines
from ktui.recording.segments import Head
from ktui.recording.stored import Sealed, seal
from support.recordings.recordings import (
    Recording,
    all_to_the_millisecond,
    bad,
    files_in,
    good,
    happenings,
    seen_in,
)
from support.simulated.observations import START

TESTS = Path(__file__).parents[2]
RECORD_FOREVER = """
import sys
from pathlib import Path
from support.recordings.recordings import Recording

recording = Recording(Path(sys.argv[1]), longest_s=40.0)
while True:
    recording.looks(1)
    print(len(recording.shown), flush=True)
"""


@pytest.fixture
def killed_file(tmp_path: Path) -> Path:
    """The file of a recorder that was killed after twelve lines: a head, polls and others."""
    recording = Recording(tmp_path / "killed")
    recording.looks(4)
    recording.recorder.run_event("move", "move@noon", 1, START, b'{"event":"started"}')
    recording.looks(3)
    recording.recorder.lost("no answer")
    recording.looks(2)
    recording.die()
    (file,) = files_in(recording.folder)
    return file


def test_every_whole_line_is_read_of_a_file_cut_off_at_any_byte(
    killed_file: Path, tmp_path: Path
) -> None:
    whole, content = good(killed_file), killed_file.read_bytes()
    cut = tmp_path / "000000.jsonl.gz.tmp"
    longest = 0
    for size in range(len(content)):
        cut.write_bytes(content[:size])
        read = good(cut)
        assert read == whole[: len(read)]
        assert longest <= len(read) <= longest + 1
        assert len(bad(cut)) <= 1
        longest = len(read)
    assert longest == len(whole) == 12


@pytest.mark.parametrize("text_bytes", [1, 5, 64])
def test_no_line_is_lost_with_any_size_of_unzipped_chunks(
    killed_file: Path, monkeypatch: pytest.MonkeyPatch, text_bytes: int
) -> None:
    whole = good(killed_file)

    monkeypatch.setattr(segments, "_TEXT_BYTES", text_bytes)

    assert good(killed_file) == whole


def test_a_line_that_is_cut_off_is_reported_with_its_place(killed_file: Path) -> None:
    content = killed_file.read_bytes()
    killed_file.write_bytes(content[:-8])

    (cut,) = bad(killed_file)

    assert cut.number == 12
    assert cut.text.startswith(b'{"kind":"look","seq":11')
    assert cut.reason == "it is cut off in the middle of a line"


def test_a_closed_segment_cut_off_between_two_lines_is_reported(
    killed_file: Path, tmp_path: Path
) -> None:
    closed = tmp_path / "000000.jsonl.gz"
    killed_file.rename(closed)

    (cut,) = bad(closed)

    assert (cut.number, cut.text, cut.reason) == (13, b"", "it is cut off")
    assert len(good(closed)) == 12


def test_an_open_segment_is_not_reported_as_damaged(killed_file: Path) -> None:
    assert bad(killed_file) == []
    assert [*read_lines(killed_file.read_bytes(), unfinished=True)] == good(killed_file)


def test_sealing_a_file_cut_off_anywhere_keeps_every_whole_line(
    killed_file: Path, tmp_path: Path
) -> None:
    content = killed_file.read_bytes()
    for size in (*range(30), *range(30, len(content), 31), len(content)):
        cut = tmp_path / str(size) / "000000.jsonl.gz.tmp"
        cut.parent.mkdir()
        cut.write_bytes(content[:size])
        whole = good(cut)

        sealed = seal(cut.parent)

        file = cut.with_suffix("")
        assert sealed.problems == ()
        assert sealed.files == ((file,) if whole else ())
        assert files_in(cut.parent) == ([file] if whole else [] if size else [cut])
        if whole:
            assert list(read_lines(file)) == whole


@contextmanager
def recording_forever(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", RECORD_FOREVER, folder],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_polls(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == count:
            return


def test_every_poll_of_a_killed_recorder_is_read(tmp_path: Path) -> None:
    with recording_forever(tmp_path) as process:
        wait_for_polls(process, 100)
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        printed = process.stdout.read().split("\n")[:-1]
    shown = int(printed[-1]) if printed else 100

    played = happenings(tmp_path)

    seen = [each.observation for each in played if isinstance(each, PlayedPoll)]
    assert shown <= len(seen) <= shown + 1
    assert sum(isinstance(each, Damage) for each in played) <= 1
    expected = Recording(tmp_path / "same")
    expected.looks(len(seen))
    assert seen == all_to_the_millisecond(expected.shown)


def test_a_killed_recorders_files_read_the_same_after_sealing(tmp_path: Path) -> None:
    with recording_forever(tmp_path) as process:
        wait_for_polls(process, 100)
    seen = [each.observation for each in happenings(tmp_path) if isinstance(each, PlayedPoll)]
    # Two are unfinished if it died as it went on to its next file.
    left = [file for file in files_in(tmp_path) if file.suffix == ".tmp" and good(file)]

    sealed = seal(tmp_path)

    assert sealed == Sealed(tuple(file.with_suffix("") for file in left), ())
    for file in files_in(tmp_path):
        assert file.name.endswith(".jsonl.gz") or file.stat().st_size == 0
    assert seen_in(tmp_path) == seen


def test_a_recorder_killed_as_it_goes_on_to_its_next_file_leaves_both_to_be_sealed(
    killed_file: Path,
) -> None:
    seen, folder = seen_in(killed_file.parent), killed_file.parent
    next_file = folder / "000001.jsonl.gz.tmp"
    next_file.touch()

    sealed = seal(folder)

    assert sealed == Sealed((killed_file.with_suffix(""),), ())
    assert files_in(folder) == [killed_file.with_suffix(""), next_file]
    assert seen_in(folder) == seen


def test_the_segment_of_a_live_recorder_is_not_sealed(tmp_path: Path) -> None:
    with recording_forever(tmp_path) as process:
        wait_for_polls(process, 5)
        process.send_signal(signal.SIGSTOP)
        before = files_in(tmp_path)

        sealed = seal(tmp_path)

        assert sealed == Sealed((), ())
        assert files_in(tmp_path) == before
        process.send_signal(signal.SIGCONT)


def test_a_file_that_was_just_started_is_left_to_its_recorder(tmp_path: Path) -> None:
    new_file = tmp_path / "000000.jsonl.gz.tmp"
    new_file.touch()

    sealed = seal(tmp_path)

    assert sealed == Sealed((), ())
    assert files_in(tmp_path) == [new_file]


def test_a_killed_sealing_is_repeated(killed_file: Path) -> None:
    whole = list(read_lines(killed_file))
    (killed_file.parent / "000000.jsonl.gz.sealing").write_bytes(b"half")
    (killed_file.parent / "000000.jsonl.gz").write_bytes(killed_file.read_bytes()[:300])

    sealed = seal(killed_file.parent)

    assert sealed.files == (killed_file.parent / "000000.jsonl.gz",)
    assert files_in(killed_file.parent) == list(sealed.files)
    assert list(read_lines(sealed.files[0])) == whole
    assert isinstance(good(sealed.files[0])[0].line, Head)


def test_a_damaged_segment_is_not_sealed_so_that_it_can_be_repaired_by_hand(
    killed_file: Path,
) -> None:
    content = bytearray(killed_file.read_bytes())
    content[2] = 99
    killed_file.write_bytes(content)

    sealed = seal(killed_file.parent)

    assert sealed.files == ()
    (problem,) = sealed.problems
    assert str(problem).startswith(f"{killed_file}:1: it cannot be unzipped from here on")
    assert files_in(killed_file.parent) == [killed_file]
    assert killed_file.read_bytes() == content
