"""Damage is reported with its place, and everything intact around it is read."""

import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from ktui.inputfile import FileProblem
from ktui.recording import segments
from ktui.recording.reading import (
    BadLine,
    Damage,
    PlayedPoll,
    find_segments,
    find_sessions,
    play_session,
    read_lines,
)
from ktui.recording.segments import End, Head, files_under
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
    """Twenty polls, every fifth of them whole, then closed: lines 2 to 21 of one file."""
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


def with_checksum(text: bytes) -> bytes:
    """Return a line with its checksum, as another program may write it."""
    text = text.removesuffix(b"}")
    return text + b',"crc":"%08x"}' % crc32(text)


def test_a_changed_line_is_reported_and_the_polls_that_build_on_it_are_skipped(
    recording: Recording,
) -> None:
    texts = texts_of(recording)
    texts[7] = texts[7].replace(b'"took_ms":10', b'"took_ms":20')
    file = rewrite(recording, texts)

    result = happenings(recording.folder)

    seen = [each.observation for each in result if isinstance(each, PlayedPoll)]
    shown = all_to_the_millisecond(recording.shown)
    assert seen == shown[:6] + shown[10:]
    changed, left_out = (str(each) for each in result if isinstance(each, Damage))
    assert changed == (f"{file}:8: its checksum is missing or wrong: the line was changed")
    assert left_out == f"{file}:12: 3 polls skipped up to here: an earlier one is missing"
    assert isinstance(result[-1], End)


def test_missing_lines_are_reported(recording: Recording) -> None:
    texts = texts_of(recording)
    file = rewrite(recording, texts[:7] + texts[9:])

    damage = [str(each) for each in happenings(recording.folder) if isinstance(each, Damage)]

    assert damage == [
        f"{file}:8: 2 lines of the session missing before this one",
        f"{file}:10: 2 polls skipped up to here: an earlier one is missing",
    ]


def test_a_missing_segment_is_reported(tmp_path: Path) -> None:
    recording = Recording(tmp_path, longest_s=5.0)
    recording.looks(20)
    recording.recorder.close()
    files = files_in(tmp_path)
    files[1].unlink()

    result = happenings(tmp_path)

    assert [str(each) for each in result if isinstance(each, Damage)] == [
        f"{files[2]}:1: 6 lines of the session missing before this one"
    ]
    seen = [each.observation for each in result if isinstance(each, PlayedPoll)]
    assert seen == all_to_the_millisecond(recording.shown[:5] + recording.shown[10:])


def test_a_file_that_vanishes_during_replay_is_reported(recording: Recording) -> None:
    session = the_session(recording.folder)
    session.files[0].unlink()

    (damage,) = play_session(session)

    assert str(damage) == f"{session.files[0]}:1: cannot be read: No such file or directory"


def test_a_folder_that_is_pruned_while_it_is_listed_is_passed_over(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pruned := tmp_path / "recordings" / "pruned").mkdir()
    listed = os.scandir

    def scandir(folder: str | Path) -> Iterator[os.DirEntry[str]]:
        if Path(folder) == pruned:
            pruned.rmdir()
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert [*files_under(tmp_path)] == files_in(recording.folder)
    assert not pruned.exists()


def test_duplicate_lines_are_played_once(recording: Recording, tmp_path: Path) -> None:
    (file,) = files_in(recording.folder)
    texts = texts_of(recording)
    (tmp_path / "recordings" / "copy.jsonl.gz").write_bytes(file.read_bytes())
    file.write_bytes(gzip.compress(b"\n".join([*texts, *texts[3:9], b""])))

    result = happenings(recording.folder)

    assert [each.observation for each in result if isinstance(each, PlayedPoll)] == (
        all_to_the_millisecond(recording.shown)
    )
    assert not any(isinstance(each, Damage) for each in result)


def test_lines_of_an_unknown_kind_are_reported_and_reading_continues(recording: Recording) -> None:
    texts = texts_of(recording)
    texts[5:5] = [
        with_checksum(b'{"kind":"weather","seq":5,"at":1,"ms":1}'),
        b"",
        b"\xff\xfe",
        b"[[[[" * 9,
    ]
    file = rewrite(recording, texts)

    result = bad(file)

    assert [each.number for each in result] == [6, 7, 8, 9]
    assert result[0].reason == (
        "not a line that this ktui knows: Invalid value 'weather' - at `$.kind`"
    )
    assert result[2].text == b"\xff\xfe"
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
def test_an_impossible_line_is_reported_as_bad(recording: Recording, text: bytes) -> None:
    texts = texts_of(recording)
    file = rewrite(recording, [*texts[:4], with_checksum(text), *texts[4:]])

    (result,) = bad(file)

    assert result.number == 5
    assert result.reason.startswith("not a line that this ktui knows: ")


@pytest.mark.parametrize(
    "contents",
    [
        b'"ends":[[1,0,[77,5]]]',
        b'"ends":[[1,0,[0,5,1]]]',
        b'"unseen":[0,0]',
        b'"ends":[[1,0,[0,1' + b"0" * 400 + b"]]]",
        b'"ends":[[1,-1' + b"0" * 400 + b",[0,1]]]",
        b'"absent":[5]',
    ],
)
def test_a_poll_with_impossible_contents_is_skipped(recording: Recording, contents: bytes) -> None:
    texts = texts_of(recording)
    impossible = with_checksum(
        b'{"kind":"look","seq":21,"at":1767268820000,"ms":20000,"took_ms":1,"follows":20,%b}'
        % contents
    )
    possible = with_checksum(
        b'{"kind":"look","seq":22,"at":1767268820000,"ms":20000,"took_ms":1,"follows":20}'
    )
    file = rewrite(recording, [*texts[:21], impossible, possible])

    *before, left_out = happenings(recording.folder)

    assert [type(each) for each in before] == [PlayedPoll] * 20
    assert str(left_out) == f"{file}:23: 2 polls skipped up to here: an earlier one is missing"


def test_a_newer_version_is_refused_and_none_of_it_is_read(recording: Recording) -> None:
    head, *rest = texts_of(recording)
    newer = head[: head.index(b',"crc"')].replace(b'"schema_version":1', b'"schema_version":2')
    file = rewrite(recording, [with_checksum(newer + b',"session_id":{}}'), *rest])

    assert good(file) == []
    with pytest.raises(FileProblem) as result:
        find_sessions(recording.folder)
    assert str(result.value) == (
        f"{file}:1: not a readable recording: written by a newer ktui, as version 2; "
        "this one reads up to 1. Use the ktui that wrote it, or a newer one"
    )


def test_unknown_fields_of_a_recording_are_ignored(recording: Recording) -> None:
    texts = [
        with_checksum(text[: text.index(b',"crc"')] + b',"weather":{"rain":[true]}}')
        for text in texts_of(recording)
    ]
    rewrite(recording, texts)

    result = happenings(recording.folder)

    assert [each.observation for each in result if isinstance(each, PlayedPoll)] == (
        all_to_the_millisecond(recording.shown)
    )


def test_a_path_that_is_not_a_recording_is_refused_with_the_reason(tmp_path: Path) -> None:
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
    other.write_bytes(gzip.compress(with_checksum(b'{"kind":"end","seq":0,"at":1,"ms":1}') + b"\n"))
    with pytest.raises(FileProblem, match=r"other.jsonl.gz:1: .* does not begin with a head"):
        find_sessions(other)


def test_files_without_a_head_are_reported_beside_readable_ones(recording: Recording) -> None:
    (recording.folder / "rubbish.jsonl.gz").write_bytes(b"rubbish")
    (recording.folder / "begun.jsonl.gz.tmp").touch()
    (recording.folder / "notes.txt").write_text("a note")

    found, problems = find_segments(recording.folder)

    assert [file.head.segment for file in found] == [0]
    assert not found[0].open
    assert [problem.path.name for problem in problems] == ["rubbish.jsonl.gz"]
    assert len(find_sessions(recording.folder)) == 1


def test_concatenated_files_are_read_as_one(tmp_path: Path) -> None:
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


def test_an_endless_line_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "LONGEST_LINE", 2_000_000)
    file = tmp_path / "bomb.jsonl.gz"
    file.write_bytes(gzip.compress(b" " * 50_000_000, 9))

    (result,) = read_lines(file)

    assert isinstance(result, BadLine)
    assert result.reason == "a line has more than 2,000,000 bytes"
    assert len(result.text) < 4_000_000
