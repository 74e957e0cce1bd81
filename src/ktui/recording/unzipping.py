"""The text of a gzip file, line by line, as far as it is readable and within limits.

A few bytes of gzip may unzip to a thousand times as many. So text is unzipped in small pieces. A
file with more text, longer lines or more lines than any recording is read only up to that limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

GZIP = 16 + zlib.MAX_WBITS
"""zlib's code for the format of a .gz file."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; a poll of a hundred thousand partitions has less than half of that."""
MOST_TEXT = 1024 * 1024 * 1024
"""Bytes; recorders begin another file after 8 MiB of gzip, which is some 100 MiB of text."""
MOST_LINES = 1_000_000
"""Recorders begin another file after 15 minutes: that is over a thousand lines a second."""
_READ_BYTES = 16 * 1024
_TEXT_BYTES = 1024 * 1024


class Unzipped:
    """The lines of one file. After the last line the attributes describe the file's damage.

    Attributes:
        damage: why the text ends early; None where the file is whole, or is cut off.
        cut_off: whether the end is missing that closing a file writes.
        rest: the text after the last whole line.
        text_bytes: the bytes unzipped so far.
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
        """Return the limit that the text has reached; the rest of the file is not read."""
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
    """An incomplete line; its pieces are joined once, however many they are."""

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
    """Yield the text before an error, which the call that fails would lose."""
    for at in range(len(zipped)):
        try:
            yield unzip.decompress(zipped[at : at + 1])
        except zlib.error:
            return
