"""The text of a gzip file, line by line, as far as it can be had."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls the format of a .gz file."""
LONGEST_LINE = 256 * 1024 * 1024
"""Bytes; a look at a hundred thousand partitions has a tenth of that."""
_READ_BYTES = 16 * 1024
_TEXT_BYTES = 1024 * 1024


class Unzipped:
    """The lines of one file. After the last of them the attributes say what is wrong with it.

    Attributes:
        damage: why the text ends where it does; None where the file is whole, or is cut off.
        cut_off: whether the end that closing a file writes is missing.
        rest: the text after the last whole line.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.damage: str | None = None
        self.cut_off = True
        self.rest = b""

    def lines(self) -> Iterator[bytes]:
        """Give each whole line, without its newline.

        Raises:
            OSError: the file cannot be read.
        """
        for text in self._text():
            *whole, self.rest = (self.rest + text).split(b"\n")
            yield from whole
            if len(self.rest) > LONGEST_LINE:
                self.damage = f"a line has more than {LONGEST_LINE:,} bytes"
                return

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


def _to_the_error(unzip: zlib._Decompress, zipped: bytes) -> Iterator[bytes]:
    """Give what comes before an error, which would be lost with the call that meets it."""
    for at in range(len(zipped)):
        try:
            yield unzip.decompress(zipped[at : at + 1])
        except zlib.error:
            return
