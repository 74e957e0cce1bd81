"""Open files of the state directory, regular files only: reading a pipe would never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LONGEST_NOTE = 1 << 20  # the most bytes read; ktui writes none that is longer


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file, no link, without blocking, closed in children, new: 0600; OSError."""
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link. Remove it", str(path)) from None
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise irregular_file_error(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise irregular_file_error(path)
    return file


def read_note(path: Path) -> bytes:
    """Return a small file's content, up to `LONGEST_NOTE`. OSError: unreadable, or not regular."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(LONGEST_NOTE)


def check_regular(path: Path) -> None:
    """Check that a path is a regular file, or a link to one; else OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise irregular_file_error(path)


def irregular_file_error(path: Path) -> OSError:
    """Return the error for a pipe, a folder or a device in a file's place."""
    return OSError(errno.EINVAL, "it is not a regular file. Remove it, or move it away", str(path))
