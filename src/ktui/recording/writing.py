"""Write a segment's file: named .tmp, and locked, until it is whole."""

from __future__ import annotations

import fcntl
import os
import zlib
from pathlib import Path

from ktui.durable import check_replaceable, sync_folder
from ktui.recording.unzipping import GZIP

LEVEL = 4
"""The level of gzip: 3 % larger than level 6, in a sixth of its time."""


class SegmentWriter:
    """Writes one file of lines. Every call raises OSError when the disk refuses to write.

    The file is locked before anything is written, and the kernel frees the lock when this process
    dies. So a file that is not empty, not locked and still named .tmp was left behind.

    Args:
        path: the name of the whole file, which must not exist.
        beside: the suffix of the name until then.
    """

    def __init__(self, path: Path, beside: str) -> None:
        self.path = path
        self._unfinished = path.with_name(path.name + beside)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        self._file = os.open(self._unfinished, flags, 0o600)
        self._zip = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
        self.size = 0
        """The bytes in the file so far."""
        try:
            os.fchmod(self._file, 0o600)  # the umask may have removed the owner's own permissions
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.abandon()
            raise

    def write(self, text: bytes, *, at_once: bool = True) -> None:
        """Write a line; `at_once` hands it to the system, where it survives this process."""
        zipped = self._zip.compress(text)
        self._put(zipped + self._zip.flush(zlib.Z_SYNC_FLUSH) if at_once else zipped)

    def close(self) -> None:
        """Make the file whole, sync it to the disk, and rename it; on an error it is abandoned."""
        try:
            self._put(self._zip.flush())
            os.fsync(self._file)
            check_replaceable(self.path)
            self._unfinished.rename(self.path)
            sync_folder(self.path.parent)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file unfinished."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _put(self, zipped: bytes) -> None:
        self.size += len(zipped)
        while zipped:
            zipped = zipped[os.write(self._file, zipped) :]
