"""Recordings, read as far as they are whole: what is not is told with its place.

Neither what is wrong with a file nor its size makes more of it be held than a line.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import msgspec

from ktui.fileproblem import FileProblem
from ktui.json_input import decoded
from ktui.recording.lines import SCHEMA_VERSION, AnyLine, Changed, Head, decode
from ktui.recording.opening import opened
from ktui.recording.segments import SegmentFile, files_under, is_open
from ktui.recording.unzipping import Unzipped

MOST_BAD = 1_000
"""Lines of one file: with more that are bad it is no recording, or none that is worth reading."""
_NO_LINE = "it is no line that this ktui knows"
_EMPTY = "there is nothing in it"


class Good(msgspec.Struct, frozen=True):
    """A line as it was written."""

    number: int
    """In its file, from 1."""
    line: AnyLine
    text: bytes
    """As it stands in the file, without its newline."""


class Bad(msgspec.Struct, frozen=True):
    """A place where a file does not say what was written."""

    number: int
    """Of the line, from 1; where the file ends too early, of the one that should follow."""
    text: bytes
    """What stands there; of a line that is cut off, its beginning."""
    reason: str


class Session(msgspec.Struct, frozen=True):
    """What one recorder wrote of one cluster, from its beginning to its end."""

    head: Head
    """Of its first segment that there is."""
    files: tuple[Path, ...]
    """Its segments, in their order."""


class _Version(msgspec.Struct, tag_field="kind", tag="head"):
    """All that is asked of a head before anything else in it is believed."""

    schema_version: int


_VERSION = msgspec.json.Decoder(_Version)


def recordings(path: Path) -> list[Session]:
    """Give the sessions in a file or, however deep, in a folder, by the time of their beginning.

    Files whose head cannot be read are left out where there are others; `segments` names them.

    Raises:
        FileProblem: there is none.
    """
    found, problems = segments(path)
    if not found:
        raise problems[0] if problems else FileProblem(path, None, "there is no recording in it")
    by_session: dict[str, list[SegmentFile]] = {}
    for file in found:
        by_session.setdefault(file.head.session, []).append(file)
    sessions = [
        Session(files[0].head, tuple(file.path for file in files))
        for files in (sorted(each, key=_place) for each in by_session.values())
    ]
    return sorted(sessions, key=attrgetter("head.at", "head.session"))


def segments(path: Path) -> tuple[list[SegmentFile], list[FileProblem]]:
    """Give the segments in a file or under a folder, and what is wrong with those left out."""
    found: list[SegmentFile] = []
    problems: list[FileProblem] = []
    for file in files_under(path):
        try:
            if (head := _head(file)) is not None:
                found.append(SegmentFile(file, head))
        except FileProblem as problem:
            problems.append(problem)
    return found, problems


def lines(content: bytes | Path, *, unfinished: bool = False) -> Iterator[Good | Bad]:
    """Read the lines of a segment's file, given by its path or as the bytes in it.

    After `MOST_BAD` bad lines the rest of a file is left out, and the last `Bad` says so.

    Args:
        content: the file, compressed.
        unfinished: nobody has closed it, so that its end is not missed; a path tells by its name.

    Raises:
        FileProblem: it cannot be opened or read, or it is no regular file.
    """
    unfinished = unfinished or (isinstance(content, Path) and is_open(content))
    try:
        with opened(content) if isinstance(content, Path) else io.BytesIO(content) as file:
            yield from _lines(Unzipped(file), unfinished=unfinished)
    except OSError as error:
        path = content if isinstance(content, Path) else Path("-")
        raise FileProblem(path, None, f"cannot be read: {error.strerror}") from None


def _lines(unzipped: Unzipped, *, unfinished: bool) -> Iterator[Good | Bad]:
    number = bad = 0
    for number, text in enumerate(unzipped.lines(), start=1):
        newer = _newer(text)
        if newer is not None:
            yield Bad(number, text, newer)
            return
        line = _line(number, text)
        yield line
        bad += isinstance(line, Bad)
        if bad == MOST_BAD:
            yield Bad(number + 1, b"", f"after {MOST_BAD:,} bad lines the rest is left out")
            return
    reason = _why_it_ends(unzipped, unfinished=unfinished)
    if reason is not None:
        yield Bad(number + 1, unzipped.rest, reason)


def _why_it_ends(unzipped: Unzipped, *, unfinished: bool) -> str | None:
    """Say what is wrong with the end of a file; None where nothing is."""
    if unzipped.damage is not None:
        return unzipped.damage
    if unzipped.rest:
        return "it is cut off in the middle of a line"
    if unfinished:
        return None
    if not unzipped.text_bytes:
        return _EMPTY
    return "it is cut off" if unzipped.cut_off else None


def _line(number: int, text: bytes) -> Good | Bad:
    try:
        return Good(number, decode(text), text)
    except Changed as error:
        return Bad(number, text, str(error))
    except msgspec.DecodeError as error:
        return Bad(number, text, f"{_NO_LINE}: {error}")


def _newer(text: bytes) -> str | None:
    """Say that a newer ktui wrote what follows, where a head says so."""
    try:
        version = decoded(_VERSION, text).schema_version
    except msgspec.DecodeError:
        return None
    if version <= SCHEMA_VERSION:
        return None
    return (
        f"written by a newer ktui, as version {version}; this one reads up to {SCHEMA_VERSION}. "
        "Use the ktui that wrote it, or a newer one"
    )


def _head(file: Path) -> Head | None:
    """Give a segment's first line; None where nothing has been written yet."""
    match next(lines(file), None):
        case Good(line=Head() as head):
            return head
        case Good():
            raise FileProblem(file, 1, "no recording of ktui's: it does not begin with a head")
        case Bad(number=number, reason=reason):
            raise FileProblem(file, number, f"no recording that can be read: {reason}")
        case None:
            return None


def _place(file: SegmentFile) -> tuple[int, bool, Path]:
    return file.head.segment, file.open, file.path
