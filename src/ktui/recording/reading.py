"""Read recordings as far as they are intact, one line in memory, and report each damage."""

from __future__ import annotations

import io
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from ktui.cluster.observation import Observation
from ktui.inputfile import FileProblem
from ktui.json_text import decode_untrusted
from ktui.quantities import as_count
from ktui.recording.codec import BrokenSequence, Decoder
from ktui.recording.segments import (
    SCHEMA_VERSION,
    AnyLine,
    ChecksumMismatch,
    End,
    Head,
    LostPollLine,
    PollLine,
    RunLine,
    SegmentFile,
    Unzipped,
    decode,
    files_under,
    is_open,
    once_whole,
    open_recording_file,
)

MOST_BAD = 1_000  # bad lines per file: with more, the file is no recording, or none worth reading
_NO_LINE = "not a line that this ktui knows"
_EMPTY = "there is nothing in it"


class GoodLine(msgspec.Struct, frozen=True):
    """An intact line."""

    number: int
    line: AnyLine
    text: bytes


class BadLine(msgspec.Struct, frozen=True):
    """A damaged place in a file."""

    number: int  # from 1; where the file ends too early, of the missing line
    text: bytes
    reason: str
    newer_version: int | None = None  # of a newer ktui's head, which ends the reading


class Session(msgspec.Struct, frozen=True):
    """The recording of one cluster by one recorder, from beginning to end."""

    head: Head
    files: tuple[Path, ...]


class _Version(msgspec.Struct, tag_field="kind", tag="head"):
    schema_version: int


_VERSION = msgspec.json.Decoder(_Version)


def find_sessions(path: Path) -> list[Session]:
    """Return the sessions in a file or folder by beginning; unreadable heads are skipped."""
    found, problems = find_segments(path)
    if not found:
        raise problems[0] if problems else FileProblem(path, None, "there is no recording in it")
    by_session: dict[str, list[SegmentFile]] = {}
    for file in found:
        by_session.setdefault(file.head.session, []).append(file)
    sessions = [
        Session(files[0].head, tuple(file.path for file in files))
        for files in (sorted(each, key=_order) for each in by_session.values())
    ]
    return sorted(sessions, key=attrgetter("head.at", "head.session"))


def find_segments(path: Path) -> tuple[list[SegmentFile], list[FileProblem]]:
    """Return the segments in a file or under a folder, and the problems of skipped ones."""
    found: list[SegmentFile] = []
    problems: list[FileProblem] = []
    for file in files_under(path):
        try:
            if (head := _head(file)) is not None:
                found.append(SegmentFile(file, head))
        except FileProblem as problem:
            problems.append(problem)
    return found, problems


def read_lines(content: bytes | Path, *, unfinished: bool = False) -> Iterator[GoodLine | BadLine]:
    """Read the lines of a segment's file; after `MOST_BAD` bad ones the rest is skipped.

    A missing end is no damage if `unfinished`, as the name of a path shows too.
    """
    unfinished = unfinished or (isinstance(content, Path) and is_open(content))
    try:
        with _opened(content) if isinstance(content, Path) else io.BytesIO(content) as file:
            yield from _lines(Unzipped(file), unfinished=unfinished)
    except OSError as error:
        path = content if isinstance(content, Path) else Path("-")
        raise FileProblem(path, None, f"cannot be read: {error.strerror}") from None


def _opened(path: Path) -> BinaryIO:
    try:
        return open_recording_file(path)
    except FileNotFoundError:  # unless it was closed or sealed since somebody listed it
        return open_recording_file(once_whole(path))


def _lines(unzipped: Unzipped, *, unfinished: bool) -> Iterator[GoodLine | BadLine]:
    number = bad = 0
    for number, text in enumerate(unzipped.lines(), start=1):
        newer = _newer_version(text)
        if newer is not None:
            yield BadLine(number, text, newer_format(newer), newer)
            return
        line = _line(number, text)
        yield line
        bad += isinstance(line, BadLine)
        if bad == MOST_BAD:
            yield BadLine(number + 1, b"", f"after {MOST_BAD:,} bad lines the rest is skipped")
            return
    reason = _end_damage(unzipped, unfinished=unfinished)
    if reason is not None:
        yield BadLine(number + 1, unzipped.rest, reason)


def _end_damage(unzipped: Unzipped, *, unfinished: bool) -> str | None:
    if unzipped.damage is not None:
        return unzipped.damage
    if unzipped.rest:
        return "it is cut off in the middle of a line"
    if unfinished:
        return None
    if not unzipped.text_bytes:
        return _EMPTY
    return "it is cut off" if unzipped.cut_off else None


def _line(number: int, text: bytes) -> GoodLine | BadLine:
    try:
        return GoodLine(number, decode(text), text)
    except ChecksumMismatch as error:
        return BadLine(number, text, str(error))
    except msgspec.DecodeError as error:
        return BadLine(number, text, f"{_NO_LINE}: {error}")


def _newer_version(text: bytes) -> int | None:
    try:
        version = decode_untrusted(_VERSION, text).schema_version
    except msgspec.DecodeError:
        return None
    return version if version > SCHEMA_VERSION else None


def newer_format(version: int) -> str:
    """Return the problem of a segment whose format has a later version."""
    return (
        f"written by a newer ktui, as version {version}; this one reads up to {SCHEMA_VERSION}. "
        "Use the ktui that wrote it, or a newer one"
    )


def _head(file: Path) -> Head | None:
    match next(read_lines(file), None):
        case GoodLine(line=Head() as head):
            return head
        case GoodLine():
            raise FileProblem(file, 1, "not a recording of ktui: it does not begin with a head")
        case BadLine(number=number, reason=reason):
            raise FileProblem(file, number, f"not a readable recording: {reason}")
        case None:
            return None


def _order(file: SegmentFile) -> tuple[int, bool, Path]:
    return file.head.segment, file.open, file.path


class PlayedPoll(msgspec.Struct, frozen=True):
    """An answered poll and its observation."""

    line: PollLine
    observation: Observation


class Damage(msgspec.Struct, frozen=True):
    """A part of a session that is missing or unreadable, and its place."""

    file: Path
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.reason}"


PlayedItem = PlayedPoll | LostPollLine | RunLine | End | Damage


def play_session(session: Session) -> Iterator[PlayedItem]:
    """Yield the content of a session in its order, repeated lines only once.

    After a damaged line, the polls that build on it are skipped, up to the next whole one. Never
    raises because of a file's content, or because a file is gone.
    """
    next_seq = 0
    for file in session.files:
        player = _FilePlayer(file, session.head.cluster_id, next_seq)
        try:
            yield from player.play()
        except FileProblem as problem:
            yield Damage(file, 1, problem.problem)
        next_seq = player.next_seq


class _FilePlayer:
    """Plays one segment's file; another file may have had its first lines already."""

    def __init__(self, file: Path, cluster_id: str, next_seq: int) -> None:
        self.next_seq = next_seq
        self._file = file
        self._decoder = Decoder(cluster_id)
        self._last_seq = -1
        self._damaged = 0
        self._skipped = 0

    def play(self) -> Iterator[PlayedItem]:
        number = 1
        for each in read_lines(self._file):
            number = each.number
            if isinstance(each, BadLine):
                self._damaged += 1
                yield Damage(self._file, number, each.reason)
            else:
                yield from self._good(each)
        yield from self._report_skipped(number)

    def _good(self, good: GoodLine) -> Iterator[PlayedItem]:
        line, number = good.line, good.number
        if line.seq <= self._last_seq:
            return
        self._last_seq = line.seq
        new = line.seq >= self.next_seq
        if line.seq > self.next_seq + self._damaged:
            missing = as_count(line.seq - self.next_seq - self._damaged, "line")
            yield Damage(self._file, number, f"{missing} of the session missing before this one")
        self.next_seq = max(self.next_seq, line.seq + 1)
        self._damaged = 0
        if isinstance(line, PollLine):
            yield from self._decoded(line, number, new=new)
        elif new and not isinstance(line, Head):
            yield line

    def _decoded(self, poll: PollLine, number: int, *, new: bool) -> Iterator[PlayedItem]:
        try:
            observation = self._decoder.observation(poll)
        except BrokenSequence:
            self._skipped += 1
            return
        yield from self._report_skipped(number)
        if new:
            yield PlayedPoll(poll, observation)

    def _report_skipped(self, number: int) -> Iterator[Damage]:
        if self._skipped:
            polls = as_count(self._skipped, "poll")
            yield Damage(
                self._file, number, f"{polls} skipped up to here: an earlier one is missing"
            )
            self._skipped = 0
