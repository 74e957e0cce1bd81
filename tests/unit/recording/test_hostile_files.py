"""Hostile files cost a reader little, and hide none of the files beside them."""

import gzip
import os
import socket
from io import BytesIO
from pathlib import Path
from zlib import crc32

import pytest

from ktui.inputfile import FileProblem
from ktui.recording import segments
from ktui.recording.reading import MOST_BAD, BadLine, find_segments, find_sessions, read_lines
from ktui.recording.recorder import SegmentWriter
from ktui.recording.segments import Head, Unzipped, session_folder
from ktui.recording.stored import seal
from support.recordings.recordings import Recording, bad, files_in, good

MIB = 1024 * 1024
FEW_BYTES = 4 * MIB  # the most that is unzipped of a much larger file before it is abandoned


class Counted(Unzipped):
    """Keeps every reader that is made, to see how much each has unzipped."""

    made: list[Unzipped]

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self.made.append(self)


@pytest.fixture
def unzipped(monkeypatch: pytest.MonkeyPatch) -> list[Unzipped]:
    """The readers that unzip files during the test."""
    Counted.made = []
    for module in ("reading", "stored"):
        monkeypatch.setattr(f"ktui.recording.{module}.Unzipped", Counted)
    return Counted.made


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    recording = Recording(tmp_path / "recordings")
    recording.looks(3)
    recording.recorder.close()
    return recording


def with_checksum(text: bytes) -> bytes:
    return text + b',"crc":"%08x"}\n' % crc32(text)


def zipped(*texts: bytes) -> bytes:
    return gzip.compress(b"".join(texts), 9, mtime=0)


HEAD = (
    b'{"kind":"head","seq":0,"at":1,"ms":1,"schema_version":1,"session":"s","segment":0,'
    b'"cluster_id":"c"'
)


def test_a_whole_segment_replaces_no_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "000000.jsonl.gz")
    writer = SegmentWriter(tmp_path / "000000.jsonl.gz", ".tmp")
    writer.write(b"{}\n")

    with pytest.raises(OSError, match="it is not a regular file"):
        writer.close()

    assert (tmp_path / "000000.jsonl.gz").is_fifo()


def test_a_file_of_line_feeds_is_abandoned_after_a_thousand_of_them(
    tmp_path: Path, unzipped: list[Unzipped]
) -> None:
    """20 KB of gzip that hold 20 MB: each byte would become an object, and a row of a table."""
    bomb = tmp_path / "bomb.jsonl.gz"
    bomb.write_bytes(zipped(with_checksum(HEAD), b"\n" * 20 * MIB))
    assert bomb.stat().st_size < 25_000

    reported = bad(bomb)

    assert len(reported) == MOST_BAD + 1
    assert reported[-1].reason == "after 1,000 bad lines the rest is skipped"
    assert unzipped[0].text_bytes < FEW_BYTES
    (session,) = find_sessions(bomb)
    assert session.head.session == "s"


def test_the_unzipped_size_of_a_file_is_bounded(
    monkeypatch: pytest.MonkeyPatch, unzipped: list[Unzipped]
) -> None:
    monkeypatch.setattr(segments, "MOST_TEXT", 3 * MIB)
    line = with_checksum(b'{"kind":"lost","seq":1,"at":1,"ms":1,"reason":"' + b"x" * 1_000 + b'"')
    content = zipped(with_checksum(HEAD), line * 40_000)

    reported = list(read_lines(content))

    assert isinstance(reported[-1], BadLine)
    assert reported[-1].reason == "it unzips to more than 3,145,728 bytes: the rest is skipped"
    assert len(reported) > 2_000
    assert unzipped[0].text_bytes <= FEW_BYTES


def test_the_number_of_lines_of_a_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_LINES", 50)
    line = with_checksum(b'{"kind":"lost","seq":1,"at":1,"ms":1,"reason":""')

    reported = list(read_lines(zipped(with_checksum(HEAD), line * 100)))

    assert len(reported) == 51
    assert isinstance(reported[-1], BadLine)
    assert reported[-1].reason == "it has 50 lines or more: the rest is skipped"


def test_a_long_line_is_joined_from_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_TEXT_BYTES", 7)
    line = bytes(range(33, 127)) * 50

    reader = Unzipped(BytesIO(zipped(line, b"\n", line, b"\n", line)))

    assert list(reader.lines()) == [line, line]
    assert reader.rest == line


def test_sealing_abandons_a_file_that_unzips_endlessly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unzipped: list[Unzipped]
) -> None:
    monkeypatch.setattr(segments, "MOST_LINES", 5_000)
    left = tmp_path / "000000.jsonl.gz.tmp"
    left.write_bytes(zipped(b"\n" * 20 * MIB))

    sealed = seal(tmp_path)

    assert sealed.files == ()
    (problem,) = sealed.problems
    assert problem.path == left
    assert problem.problem == "it has 5,000 lines or more: the rest is skipped"
    assert unzipped[0].text_bytes < FEW_BYTES
    assert files_in(tmp_path) == [left]


def test_special_files_named_like_segments_are_reported_and_skipped(recording: Recording) -> None:
    folder = recording.folder
    os.mkfifo(folder / "fifo.jsonl.gz")
    os.mkfifo(folder / "fifo.jsonl.gz.tmp")
    (folder / "folder.jsonl.gz").mkdir()
    (folder / "nowhere.jsonl.gz").symlink_to("nothing")
    (folder / "device.jsonl.gz").symlink_to("/dev/zero")
    (folder / "empty.jsonl.gz").touch()

    found, problems = find_segments(folder)

    assert len(found) == 1
    reported = {problem.path.name: str(problem).split(": ", 1)[1] for problem in problems}
    assert reported == {
        "device.jsonl.gz": "a device, not a file",
        "empty.jsonl.gz": "not a readable recording: there is nothing in it",
        "fifo.jsonl.gz": "a FIFO, not a file",
        "fifo.jsonl.gz.tmp": "a FIFO, not a file",
        "folder.jsonl.gz": "cannot be read: Is a directory",
        "nowhere.jsonl.gz": "cannot be read: No such file or directory",
    }
    assert len(find_sessions(folder)) == 1
    assert [problem.path.name for problem in seal(folder).problems] == ["fifo.jsonl.gz.tmp"]


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(FileProblem, match="fifo: a FIFO, not a file"):
        list(read_lines(tmp_path / "fifo"))


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(FileProblem, match="socket: cannot be read"):
            list(read_lines(Path("socket")))


@pytest.mark.parametrize(
    "more",
    [
        b',"cluster":"' + b"x" * 3_000 + b'"',
        b',"segment":-1',
        b',"segment":2147483648',
        b',"at":221845392000000',
        b',"ms":8796093022209',
        b',"cluster_id":"\\ud800"',
        b',"seq":9007199254740993',
        b',"session":"' + b"\xff" + b'"',
        b',"session":{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b',"ms":1' + b"0" * 5_000,
    ],
)
def test_a_head_that_no_recorder_writes_is_refused(more: bytes) -> None:
    (reported,) = read_lines(zipped(with_checksum(HEAD + more)))

    assert isinstance(reported, BadLine)
    assert reported.reason.startswith("not a line that this ktui knows: ")


@pytest.mark.parametrize(
    "contents",
    [
        b'"controller":2147483648',
        b'"names":[[0,"t",4294967296,null]]',
        b'"states":[[0,[4294967296],[],null,null,[],[],[],null,true]]',
        b'"brokers":{"4294967296":null}',
        b'"names":[[0,"' + b"t" * 3_000 + b'",0,null]]',
    ],
)
def test_a_poll_with_numbers_beyond_kafkas_range_is_refused(contents: bytes) -> None:
    line = with_checksum(
        b'{"kind":"look","seq":1,"at":1,"ms":1,"took_ms":1,"whole":true,%b' % contents
    )

    _head, reported = read_lines(zipped(with_checksum(HEAD), line))

    assert isinstance(reported, BadLine)


def test_names_with_nul_and_path_separators_make_no_path(tmp_path: Path) -> None:
    head = HEAD.replace(b'"session":"s"', rb'"session":"../../\u0000x"')

    (reported,) = good(zipped(with_checksum(head)))

    assert isinstance(reported.line, Head)
    assert session_folder(tmp_path, reported.line).parent.parent == tmp_path
    assert session_folder(tmp_path, reported.line).name == "19700101T000000Z--x"
