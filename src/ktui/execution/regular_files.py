"""Files of the state directory, opened only if they are files: a pipe would never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LONGEST_NOTE = 1 << 20
"""Bytes of a note at most; the rest is none that ktui wrote."""


def open_regular(path: Path, flags: int) -> int:
    """Open a file for this process alone, and never wait for it; a new one is its owner's only.

    Args:
        path: of the file; a symbolic link is not followed.
        flags: of `os.open`.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link. Remove it", str(path)) from None
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise no_regular_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise no_regular_file(path)
    return file


def read_note(path: Path) -> bytes:
    """Read a small file.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(LONGEST_NOTE)


def refuse_irregular(path: Path) -> None:
    """See that what is there is a regular file, or a link to one.

    Raises:
        OSError: there is nothing, or no regular file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise no_regular_file(path)


def no_regular_file(path: Path) -> OSError:
    """Return the error that tells of a pipe, a folder or a device in a file's place."""
    return OSError(errno.EINVAL, "it is no regular file. Remove it, or move it away", str(path))
