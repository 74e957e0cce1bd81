"""Segments of a recording: opened without blocking, named in order, and unzipped."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from ktui.inputfile import FileProblem
from ktui.recording.lines import Head, from_wall_ms

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_recording_file(path: Path) -> BinaryIO:
    """Open a file for reading bytes."""
    file = open(path, "rb", opener=_open_without_blocking)  # noqa: SIM115 - the caller closes it
    try:
        check_regular(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def _open_without_blocking(path: str, flags: int) -> int:
    """Open a file without blocking: a FIFO without a writer would block."""
    return os.open(path, flags | os.O_NONBLOCK)


def check_regular(path: Path, status: os.stat_result) -> None:
    """Check that a path leads to a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise FileProblem(path, None, f"{_KINDS.get(kind, 'something else')}, not a file")


CLOSED = ".jsonl.gz"
UNFINISHED = ".tmp"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64


class SegmentFile(msgspec.Struct, frozen=True):
    """A file that holds a segment, and its first line."""

    path: Path
    head: Head

    @property
    def open(self) -> bool:
        return is_open(self.path)


def is_open(path: Path) -> bool:
    """Whether a file has the name of one that is not whole yet."""
    return path.name.endswith(UNFINISHED)


def session_folder(folder: Path, head: Head) -> Path:
    """Return the folder of a session, under the folder for recordings.

    FOLDER/<cluster id>/<beginning, UTC>-<first 8 digits of the session's id>
    """
    cluster = _UNSAFE.sub("-", head.cluster_id)[:_LONGEST] or "-"
    began: datetime = from_wall_ms(head.at).astimezone(UTC)
    session = _UNSAFE.sub("-", head.session[:8])
    return folder / cluster / f"{began:%Y%m%dT%H%M%SZ}-{session}"


def segment_path(session: Path, segment: int) -> Path:
    """Return the path of a segment's file, once it is whole."""
    return session / f"{segment:06}{CLOSED}"


def files_under(path: Path) -> Iterator[Path]:
    """Yield the named file, or every path under a folder that is named as a segment."""
    if os.path.isdir(path):  # noqa: PTH112 - Path's own raises where it may not look
        yield from sorted(
            each for each in path.rglob("*") if each.name.removesuffix(UNFINISHED).endswith(CLOSED)
        )
    else:
        yield path


GZIP = 16 + zlib.MAX_WBITS  # zlib's code for the format of a .gz file
LONGEST_LINE = 64 * 1024 * 1024  # bytes; a poll of 100,000 partitions has less than half
MOST_TEXT = 1024 * 1024 * 1024  # bytes; recorders end files at 8 MiB of gzip: 100 MiB
MOST_LINES = 1_000_000  # recorders end files after 15 minutes: over 1,000 a second
_READ_BYTES = 16 * 1024
_TEXT_BYTES = 1024 * 1024


class Unzipped:
    """The lines of one file; after the last one, `damage` and `cut_off` tell of a missing end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.damage: str | None = None
        self.cut_off = True
        self.rest = b""
        self.text_bytes = 0

    def lines(self) -> Iterator[bytes]:
        partial = _PartialLine()
        count = 0
        for text in self._text():
            self.text_bytes += len(text)
            first, *others = text.split(b"\n")
            partial.add(first)
            for other in others:
                if partial.size > LONGEST_LINE or count == MOST_LINES:
                    break
                yield partial.whole()
                count += 1
                partial.add(other)
            self.damage = self.damage or self._limit_reached(partial.size, count)
            if self.damage is not None:
                break
        self.rest = partial.whole()

    def _limit_reached(self, line_bytes: int, lines: int) -> str | None:
        if line_bytes > LONGEST_LINE:
            return f"a line has more than {LONGEST_LINE:,} bytes"
        if lines == MOST_LINES:
            return f"it has {MOST_LINES:,} lines or more: the rest is skipped"
        if self.text_bytes > MOST_TEXT:
            return f"it unzips to more than {MOST_TEXT:,} bytes: the rest is skipped"
        return None

    def _text(self) -> Iterator[bytes]:
        unzip = zlib.decompressobj(GZIP)
        while zipped := self._file.read(_READ_BYTES):
            while zipped:
                if unzip.eof:  # gzip files may be concatenated
                    unzip = zlib.decompressobj(GZIP)
                before = unzip.copy()
                try:
                    yield unzip.decompress(zipped, _TEXT_BYTES)
                except zlib.error as error:
                    yield from _to_the_error(before, zipped)
                    self.damage = f"it cannot be unzipped from here on ({error})"
                    return
                zipped = unzip.unconsumed_tail or unzip.unused_data
                self.cut_off = not unzip.eof
        yield unzip.flush()


class _PartialLine:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)

    def whole(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return line


def _to_the_error(unzip: zlib._Decompress, zipped: bytes) -> Iterator[bytes]:
    """Yield the text before an error, which the call that fails would lose."""
    for at in range(len(zipped)):
        try:
            yield unzip.decompress(zipped[at : at + 1])
        except zlib.error:
            return
