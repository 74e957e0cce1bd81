"""What is damaged is told with its place, and what is whole is read beside it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

from ktui.fileproblem import FileProblem
from ktui.recording import unzipping
from ktui.recording.lines import End, Head
from ktui.recording.playing import Damage, PlayedPoll, play_session
from ktui.recording.reading import BadLine, find_segments, find_sessions, read_lines
from support.recordings.recordings import (
    Recording,
    all_to_the_millisecond,
    bad,
    files_in,
    good,
    happenings,
    the_session,
)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Twenty looks, of which each fifth is whole, closed: lines 2 to 21 of one file."""
    recording = Recording(tmp_path / "recordings", whole_every_s=5.0)
    recording.looks(20)
    recording.recorder.close()
    return recording


def texts_of(recording: Recording) -> list[bytes]:
    (file,) = files_in(recording.folder)
    return gzip.decompress(file.read_bytes()).splitlines()


def rewrite(recording: Recording, texts: Sequence[bytes]) -> Path:
    (file,) = files_in(recording.folder)
    file.write_bytes(gzip.compress(b"".join(text + b"\n" for text in texts)))
    return file


def summed(text: bytes) -> bytes:
    """A line as some other program may write it, with its checksum."""
    text = text.removesuffix(b"}")
    return text + b',"crc":"%08x"}' % crc32(text)


def test_a_line_that_was_changed_is_told_and_the_looks_that_build_on_it_are_left_out(
    recording: Recording,
) -> None:
    texts = texts_of(recording)
    texts[7] = texts[7].replace(b'"took_ms":10', b'"took_ms":20')
    file = rewrite(recording, texts)

    told = happenings(recording.folder)

    seen = [each.observation for each in told if isinstance(each, PlayedPoll)]
    shown = all_to_the_millisecond(recording.shown)
    assert seen == shown[:6] + shown[10:]
    changed, left_out = (str(each) for each in told if isinstance(each, Damage))
    assert changed == (f"{file}:8: its checksum is missing or wrong: the line was changed")
    assert left_out == f"{file}:12: 3 polls skipped up to here: an earlier one is missing"
    assert isinstance(told[-1], End)


def test_a_line_that_is_missing_is_told(recording: Recording) -> None:
    texts = texts_of(recording)
    file = rewrite(recording, texts[:7] + texts[9:])

    damage = [str(each) for each in happenings(recording.folder) if isinstance(each, Damage)]

    assert damage == [
        f"{file}:8: 2 lines of the session missing before this one",
        f"{file}:10: 2 polls skipped up to here: an earlier one is missing",
    ]


def test_a_segment_that_is_missing_is_told(tmp_path: Path) -> None:
    recording = Recording(tmp_path, longest_s=5.0)
    recording.looks(20)
    recording.recorder.close()
    files = files_in(tmp_path)
    files[1].unlink()

    told = happenings(tmp_path)

    assert [str(each) for each in told if isinstance(each, Damage)] == [
        f"{files[2]}:1: 6 lines of the session missing before this one"
    ]
    seen = [each.observation for each in told if isinstance(each, PlayedPoll)]
    assert seen == all_to_the_millisecond(recording.shown[:5] + recording.shown[10:])


def test_a_file_that_vanishes_while_it_is_played_is_told(recording: Recording) -> None:
    session = the_session(recording.folder)
    session.files[0].unlink()

    (damage,) = play_session(session)

    assert str(damage) == f"{session.files[0]}:1: cannot be read: No such file or directory"


def test_lines_that_come_twice_are_told_once(recording: Recording, tmp_path: Path) -> None:
    (file,) = files_in(recording.folder)
    texts = texts_of(recording)
    (tmp_path / "recordings" / "copy.jsonl.gz").write_bytes(file.read_bytes())
    file.write_bytes(gzip.compress(b"\n".join([*texts, *texts[3:9], b""])))

    told = happenings(recording.folder)

    assert [each.observation for each in told if isinstance(each, PlayedPoll)] == (
        all_to_the_millisecond(recording.shown)
    )
    assert not any(isinstance(each, Damage) for each in told)


def test_a_line_of_no_known_kind_is_told_and_reading_goes_on(recording: Recording) -> None:
    texts = texts_of(recording)
    texts[5:5] = [
        summed(b'{"kind":"weather","seq":5,"at":1,"ms":1}'),
        b"",
        b"\xff\xfe",
        b"[[[[" * 9,
    ]
    file = rewrite(recording, texts)

    told = bad(file)

    assert [each.number for each in told] == [6, 7, 8, 9]
    assert told[0].reason == (
        "not a line that this ktui knows: Invalid value 'weather' - at `$.kind`"
    )
    assert told[2].text == b"\xff\xfe"
    assert len(good(file)) == 22


@pytest.mark.parametrize(
    "text",
    [
        b'{"kind":"look","seq":-1,"at":1,"ms":1,"took_ms":1}',
        b'{"kind":"lost","seq":1,"at":999999999999999,"ms":1,"reason":"beyond the calendar"}',
        b'{"kind":"lost","seq":1,"at":1,"ms":1}',
        b'{"kind":"run","seq":1,"at":1,"ms":1,"run":"r","run_id":"r","entry":1,"event":}',
        b'{"kind":"lost","seq":1,"at":1,"ms":1,"reason":"\xff\xff"}',
        b'{"kind":"lost","seq":1,"at":1,"ms":1,"reason":' + b"[" * 100_000 + b"}",
        b"7",
    ],
)
def test_what_cannot_be_is_no_line(recording: Recording, text: bytes) -> None:
    texts = texts_of(recording)
    file = rewrite(recording, [*texts[:4], summed(text), *texts[4:]])

    (told,) = bad(file)

    assert told.number == 5
    assert told.reason.startswith("not a line that this ktui knows: ")


@pytest.mark.parametrize(
    "look",
    [
        b'"ends":[[1,0,[77,5]]]',
        b'"ends":[[1,0,[0,5,1]]]',
        b'"unseen":[0,0]',
        b'"ends":[[1,0,[0,1' + b"0" * 400 + b"]]]",
        b'"ends":[[1,-1' + b"0" * 400 + b",[0,1]]]",
        b'"absent":[5]',
    ],
)
def test_a_look_that_tells_of_what_cannot_be_is_left_out(recording: Recording, look: bytes) -> None:
    texts = texts_of(recording)
    impossible = summed(
        b'{"kind":"look","seq":21,"at":1767268820000,"ms":20000,"took_ms":1,"follows":20,%b}' % look
    )
    possible = summed(
        b'{"kind":"look","seq":22,"at":1767268820000,"ms":20000,"took_ms":1,"follows":20}'
    )
    file = rewrite(recording, [*texts[:21], impossible, possible])

    *before, left_out = happenings(recording.folder)

    assert [type(each) for each in before] == [PlayedPoll] * 20
    assert str(left_out) == f"{file}:23: 2 polls skipped up to here: an earlier one is missing"


def test_a_newer_version_is_told_and_nothing_of_it_is_believed(recording: Recording) -> None:
    head, *rest = texts_of(recording)
    newer = head[: head.index(b',"crc"')].replace(b'"schema_version":1', b'"schema_version":2')
    file = rewrite(recording, [summed(newer + b',"session_id":{}}'), *rest])

    assert good(file) == []
    with pytest.raises(FileProblem) as told:
        find_sessions(recording.folder)
    assert str(told.value) == (
        f"{file}:1: not a readable recording: written by a newer ktui, as version 2; "
        "this one reads up to 1. Use the ktui that wrote it, or a newer one"
    )


def test_fields_that_this_version_does_not_know_are_left_aside(recording: Recording) -> None:
    texts = [
        summed(text[: text.index(b',"crc"')] + b',"weather":{"rain":[true]}}')
        for text in texts_of(recording)
    ]
    rewrite(recording, texts)

    told = happenings(recording.folder)

    assert [each.observation for each in told if isinstance(each, PlayedPoll)] == (
        all_to_the_millisecond(recording.shown)
    )


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    with pytest.raises(FileProblem, match="nothing: cannot be read: No such file or directory"):
        find_sessions(nothing)
    nothing.mkdir()
    with pytest.raises(FileProblem, match="nothing: there is no recording in it"):
        find_sessions(nothing)
    text = tmp_path / "notes.txt"
    text.write_text("a note")
    with pytest.raises(FileProblem, match=r"notes.txt:1: not a readable recording: it cannot"):
        find_sessions(text)
    empty = tmp_path / "empty.jsonl.gz"
    empty.touch()
    with pytest.raises(FileProblem, match=r"empty.jsonl.gz:1: not a readable recording"):
        find_sessions(empty)
    other = tmp_path / "other.jsonl.gz"
    other.write_bytes(gzip.compress(summed(b'{"kind":"end","seq":0,"at":1,"ms":1}') + b"\n"))
    with pytest.raises(FileProblem, match=r"other.jsonl.gz:1: .* does not begin with a head"):
        find_sessions(other)


def test_files_without_a_head_are_named_beside_those_that_can_be_read(
    recording: Recording,
) -> None:
    (recording.folder / "rubbish.jsonl.gz").write_bytes(b"rubbish")
    (recording.folder / "begun.jsonl.gz.tmp").touch()
    (recording.folder / "notes.txt").write_text("a note")

    found, problems = find_segments(recording.folder)

    assert [file.head.segment for file in found] == [0]
    assert not found[0].open
    assert [problem.path.name for problem in problems] == ["rubbish.jsonl.gz"]
    assert len(find_sessions(recording.folder)) == 1


def test_files_put_one_behind_another_are_read_as_one(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "recordings", longest_s=5.0)
    recording.looks(12)
    recording.recorder.close()
    together = tmp_path / "together.jsonl.gz"
    together.write_bytes(b"".join(file.read_bytes() for file in files_in(recording.folder)))

    assert [each.number for each in read_lines(together)] == list(range(1, 17))
    assert sum(isinstance(each.line, Head) for each in good(together)) == 3
    assert [each.observation for each in happenings(together) if isinstance(each, PlayedPoll)] == (
        all_to_the_millisecond(recording.shown)
    )


def test_a_line_without_an_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unzipping, "LONGEST_LINE", 2_000_000)
    file = tmp_path / "bomb.jsonl.gz"
    file.write_bytes(gzip.compress(b" " * 50_000_000, 9))

    (told,) = read_lines(file)

    assert isinstance(told, BadLine)
    assert told.reason == "a line has more than 2,000,000 bytes"
    assert len(told.text) < 4_000_000
