"""Files of recordings, opened to be read: regular ones only, so that nobody waits for a writer."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from ktui.fileproblem import FileProblem

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def opened(path: Path) -> BinaryIO:
    """Open a file to read its bytes.

    Raises:
        FileProblem: there is something else of that name, which cannot be a recording.
        OSError: it cannot be opened.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    try:
        check_regular(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a FIFO that nobody writes to would otherwise be waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def check_regular(path: Path, status: os.stat_result) -> None:
    """Check that a path leads to a regular file.

    Raises:
        FileProblem: it leads to something else.
    """
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise FileProblem(path, None, f"{_KINDS.get(kind, 'something else')}, not a file")
