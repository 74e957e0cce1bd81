"""A recorder that dies loses at most the line that it was writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktui.recording import unzipping
from ktui.recording.lines import Head
from ktui.recording.playing import Damage, PlayedPoll
from ktui.recording.reading import read_lines
from ktui.recording.sealing import Sealed, seal
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
RECORD_FOR_EVER = """
import sys
from pathlib import Path
from support.recordings.recordings import Recording

recording = Recording(Path(sys.argv[1]), longest_s=40.0)
while True:
    recording.looks(1)
    print(len(recording.shown), flush=True)
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The file of a recorder that was killed after twelve lines: a head, looks and others."""
    recording = Recording(tmp_path / "killed")
    recording.looks(4)
    recording.recorder.run_event("move", "move@noon", 1, START, b'{"event":"started"}')
    recording.looks(3)
    recording.recorder.lost("no answer")
    recording.looks(2)
    recording.die()
    (file,) = files_in(recording.folder)
    return file


def test_of_a_file_cut_off_at_any_byte_every_whole_line_is_read(
    small: Path, tmp_path: Path
) -> None:
    whole, content = good(small), small.read_bytes()
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
def test_no_end_of_a_text_is_lost_however_little_is_unzipped_at_once(
    small: Path, monkeypatch: pytest.MonkeyPatch, text_bytes: int
) -> None:
    whole = good(small)

    monkeypatch.setattr(unzipping, "_TEXT_BYTES", text_bytes)

    assert good(small) == whole


def test_a_line_that_is_cut_off_is_told_with_its_place(small: Path) -> None:
    content = small.read_bytes()
    small.write_bytes(content[:-8])

    (cut,) = bad(small)

    assert cut.number == 12
    assert cut.text.startswith(b'{"kind":"look","seq":11')
    assert cut.reason == "it is cut off in the middle of a line"


def test_a_segment_that_was_closed_and_is_cut_off_is_told_even_between_two_lines(
    small: Path, tmp_path: Path
) -> None:
    closed = tmp_path / "000000.jsonl.gz"
    small.rename(closed)

    (cut,) = bad(closed)

    assert (cut.number, cut.text, cut.reason) == (13, b"", "it is cut off")
    assert len(good(closed)) == 12


def test_a_segment_being_written_is_not_called_damaged(small: Path) -> None:
    assert bad(small) == []
    assert [*read_lines(small.read_bytes(), unfinished=True)] == good(small)


def test_sealing_a_file_cut_off_anywhere_keeps_every_whole_line(
    small: Path, tmp_path: Path
) -> None:
    content = small.read_bytes()
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
def recording_for_ever(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", RECORD_FOR_EVER, folder],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def after_looks(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == count:
            return


def test_every_look_of_a_killed_process_is_read(tmp_path: Path) -> None:
    with recording_for_ever(tmp_path) as process:
        after_looks(process, 100)
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        told_of = process.stdout.read().split("\n")[:-1]
    shown = int(told_of[-1]) if told_of else 100

    told = happenings(tmp_path)

    seen = [each.observation for each in told if isinstance(each, PlayedPoll)]
    assert shown <= len(seen) <= shown + 1
    assert sum(isinstance(each, Damage) for each in told) <= 1
    same = Recording(tmp_path / "same")
    same.looks(len(seen))
    assert seen == all_to_the_millisecond(same.shown)


def test_what_a_killed_process_left_behind_is_sealed_and_read_the_same(tmp_path: Path) -> None:
    with recording_for_ever(tmp_path) as process:
        after_looks(process, 100)
    seen = [each.observation for each in happenings(tmp_path) if isinstance(each, PlayedPoll)]

    sealed = seal(tmp_path)

    assert [file.name for file in sealed.files] in ([], [files_in(tmp_path)[-1].name])
    for file in files_in(tmp_path):
        assert file.name.endswith(".jsonl.gz") or file.stat().st_size == 0
    assert seen_in(tmp_path) == seen


def test_a_segment_that_a_live_process_is_at_is_left_alone(tmp_path: Path) -> None:
    with recording_for_ever(tmp_path) as process:
        after_looks(process, 5)
        process.send_signal(signal.SIGSTOP)
        before = files_in(tmp_path)

        sealed = seal(tmp_path)

        assert sealed == Sealed((), ())
        assert files_in(tmp_path) == before
        process.send_signal(signal.SIGCONT)


def test_a_file_that_has_just_been_begun_is_left_to_its_recorder(tmp_path: Path) -> None:
    begun = tmp_path / "000000.jsonl.gz.tmp"
    begun.touch()

    sealed = seal(tmp_path)

    assert sealed == Sealed((), ())
    assert files_in(tmp_path) == [begun]


def test_a_sealing_that_was_killed_is_done_again(small: Path) -> None:
    whole = list(read_lines(small))
    (small.parent / "000000.jsonl.gz.sealing").write_bytes(b"half")
    (small.parent / "000000.jsonl.gz").write_bytes(small.read_bytes()[:300])

    sealed = seal(small.parent)

    assert sealed.files == (small.parent / "000000.jsonl.gz",)
    assert files_in(small.parent) == list(sealed.files)
    assert list(read_lines(sealed.files[0])) == whole
    assert isinstance(good(sealed.files[0])[0].line, Head)


def test_a_damaged_segment_is_not_sealed_for_its_rest_may_be_saved_by_hand(small: Path) -> None:
    content = bytearray(small.read_bytes())
    content[2] = 99
    small.write_bytes(content)

    sealed = seal(small.parent)

    assert sealed.files == ()
    (problem,) = sealed.problems
    assert str(problem).startswith(f"{small}:1: it cannot be unzipped from here on")
    assert files_in(small.parent) == [small]
    assert small.read_bytes() == content
