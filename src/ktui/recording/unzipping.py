"""The text of a gzip file, line by line, as far as it can be had and within limits.

A few bytes of gzip may stand for a thousand times as many. So text is unzipped in small pieces, and
a file that is larger, or has longer or more lines, than any recording is read up to there only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls the format of a .gz file."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; a look at a hundred thousand partitions has less than half of that."""
MOST_TEXT = 1024 * 1024 * 1024
"""Bytes; recorders begin another file after 8 MiB of gzip, which is some 100 MiB of text."""
MOST_LINES = 1_000_000
"""Recorders begin another file after 15 minutes: this is a thousand lines a second."""
_READ_BYTES = 16 * 1024
_TEXT_BYTES = 1024 * 1024


class Unzipped:
    """The lines of one file. After the last of them the attributes say what is wrong with it.

    Attributes:
        damage: why the text ends where it does; None where the file is whole, or is cut off.
        cut_off: whether the end that closing a file writes is missing.
        rest: the text after the last whole line.
        text_bytes: how much has been unzipped so far.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.damage: str | None = None
        self.cut_off = True
        self.rest = b""
        self.text_bytes = 0

    def lines(self) -> Iterator[bytes]:
        """Yield each whole line, without its newline.

        Raises:
            OSError: the file cannot be read.
        """
        begun = _Begun()
        count = 0
        for text in self._text():
            self.text_bytes += len(text)
            first, *others = text.split(b"\n")
            begun.add(first)
            for other in others:
                if begun.size > LONGEST_LINE or count == MOST_LINES:
                    break
                yield begun.whole()
                count += 1
                begun.add(other)
            self.damage = self.damage or self._beyond(begun.size, count)
            if self.damage is not None:
                break
        self.rest = begun.whole()

    def _beyond(self, line_bytes: int, lines: int) -> str | None:
        """Say which limit the text has reached; the rest of the file is not read."""
        if line_bytes > LONGEST_LINE:
            return f"a line has more than {LONGEST_LINE:,} bytes"
        if lines == MOST_LINES:
            return f"it has {MOST_LINES:,} lines or more: the rest is left out"
        if self.text_bytes > MOST_TEXT:
            return f"it unzips to more than {MOST_TEXT:,} bytes: the rest is left out"
        return None

    def _text(self) -> Iterator[bytes]:
        unzip = zlib.decompressobj(GZIP)
        while zipped := self._file.read(_READ_BYTES):
            while zipped:
                if unzip.eof:  # files may be put one behind another
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


class _Begun:
    """A line of which only some pieces are there; joined once, however many they are."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)

    def whole(self) -> bytes:
        """Return the line, and begin the next one."""
        line = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return line


def _to_the_error(unzip: zlib._Decompress, zipped: bytes) -> Iterator[bytes]:
    """Give what comes before an error, which would be lost with the call that meets it."""
    for at in range(len(zipped)):
        try:
            yield unzip.decompress(zipped[at : at + 1])
        except zlib.error:
            return
